"""Work in the background, one piece at a time for a key, that nobody's call waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future
from contextvars import Context
from time import monotonic
from typing import Any

from ce_engine.runtime.fork import renew_after_fork
from ce_engine.runtime.loop import LoopThread
from ce_engine.runtime.waiting import settled


AT_ONCE = 4

Make = Callable[[], Coroutine[Any, Any, None]]


class Background:
    """Runs work on the engine's loop; what is asked for while its key is busy follows, the last one only.

    Work is to catch its own faults. It runs in a context of its own: nothing of the caller's, such
    as the run that a framework traces, reaches it.
    """

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        self._reset()
        renew_after_fork(self._reset)

    def _reset(self) -> None:
        """Begin anew, as a forked child does: the parent goes on with what it began."""
        self._mutex = threading.Lock()
        self._running: dict[Hashable, Future[None]] = {}
        self._next: dict[Hashable, Make] = {}
        self._later: dict[Hashable, Future[None]] = {}
        self._room = asyncio.Semaphore(AT_ONCE)

    def ask(self, key: Hashable, make: Make) -> None:
        """Start work for a key, or let it follow what runs."""
        with self._mutex:
            if key in self._running:
                self._next[key] = make
            else:
                self._running[key] = Context().run(self._loop.submit, self._run(key, make))

    def later(self, key: Hashable, seconds: float, make: Make) -> None:
        """Start work for a key once nothing was put off for it for so long; nobody waits for that."""
        with self._mutex:
            if (before := self._later.pop(key, None)) is not None:
                before.cancel()
            self._later[key] = Context().run(self._loop.submit, self._wait(key, seconds, make))

    async def _wait(self, key: Hashable, seconds: float, make: Make) -> None:
        await asyncio.sleep(seconds)
        with self._mutex:
            self._later.pop(key, None)
        self.ask(key, make)

    async def settle(self, timeout_s: float) -> bool:
        """Wait for what runs; false if it takes longer."""
        until = monotonic() + timeout_s
        with self._mutex:
            running = list(self._running.values())
        return all([await settled(work, max(0.0, until - monotonic())) for work in running])

    async def ended(self, key: Hashable, timeout_s: float) -> bool:
        """Wait for what runs for one key; false if it takes longer."""
        with self._mutex:
            running = self._running.get(key)
        return running is None or await settled(running, timeout_s)

    def stop(self) -> None:
        """End what runs without waiting for it."""
        with self._mutex:
            running = [*self._running.values(), *self._later.values()]
        self._reset()
        for work in running:
            work.cancel()

    async def _run(self, key: Hashable, make: Make) -> None:
        running, following = self._running, self._next
        try:
            work: Make | None = make
            while work is not None:
                async with self._room:
                    await work()
                with self._mutex:
                    work = following.pop(key, None)
                    if work is None:
                        running.pop(key, None)
        except BaseException:
            with self._mutex:
                following.pop(key, None)
                running.pop(key, None)
            raise
