"""Locks by key that do not care which event loop they are taken on (A-15)."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from concurrent.futures import Future
from contextlib import asynccontextmanager


class KeyedLocks:
    """One lock a key, first come first served, made of plain futures: `asyncio.Lock` belongs to one loop."""

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=_resetter(weakref.ref(self)))

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


def _resetter(reference: weakref.ref[KeyedLocks]) -> Callable[[], None]:
    """A forked child has none of the threads that hold or wait for a lock."""

    def reset() -> None:
        locks = reference()
        if locks is not None:
            locks._reset()  # noqa: SLF001 - its own

    return reset
