"""Locks by key that do not care which event loop they are taken on (A-15)."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager

from ce_engine.runtime.fork import renew_after_fork


class KeyedLocks:
    """One lock a key, first come first served, made of plain futures: `asyncio.Lock` belongs to one loop."""

    def __init__(self) -> None:
        self._reset()
        renew_after_fork(self._reset)

    def _reset(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: dict[Hashable, deque[Future[None]]] = {}

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the key's lock; different keys never wait for each other."""
        turn = self._enter(key)
        if turn is not None:
            try:
                await asyncio.wrap_future(turn)
            except BaseException:
                if not turn.cancel():  # handed over in the same moment: pass it on
                    self._leave(key)
                raise
        try:
            yield
        finally:
            self._leave(key)

    def _enter(self, key: Hashable) -> Future[None] | None:
        with self._mutex:
            queue = self._waiting.get(key)
            if queue is None:
                self._waiting[key] = deque()
                return None
            turn: Future[None] = Future()
            queue.append(turn)
            return turn

    def _leave(self, key: Hashable) -> None:
        while True:
            with self._mutex:
                queue = self._waiting[key]
                if not queue:
                    del self._waiting[key]
                    return
                turn = queue.popleft()
            if turn.set_running_or_notify_cancel():
                turn.set_result(None)
                return
