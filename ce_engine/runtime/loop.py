"""One background event loop for synchronous callers and for work that outlives a call."""

from __future__ import annotations

import asyncio
import sys
import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVar

from ce_engine.errors import SyncCallError
from ce_engine.runtime.fork import renew_after_fork
from ce_engine.runtime.waiting import settled


T = TypeVar("T")


class LoopThread:
    """A daemon thread with an event loop, started at first use and again in a forked child."""

    def __init__(self, name: str = "ce-engine") -> None:
        self._name = name
        self._tasks: set[asyncio.Task[None]] = set()  # a child keeps its parent's, untouched
        self._reset()
        renew_after_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; it is started if need be."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            return loop
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._start()
            assert self._loop is not None
            return self._loop

    def _start(self) -> None:
        # In a context of its own, or the loop would hold the first caller's for ever.
        loop = Context().run(asyncio.new_event_loop)

        def run(_tasks: object) -> None:
            asyncio.set_event_loop(loop)
            try:
                loop.run_forever()
            finally:
                _cancel_all(loop)
                loop.close()

        # The tasks are held by the thread, which outlives this object.
        thread = threading.Thread(target=run, args=(self._tasks,), name=self._name, daemon=True)
        thread.start()
        self._loop, self._thread = loop, thread
        weakref.finalize(self, _stop, loop).atexit = False  # what is left is flushed at exit first

    def is_current(self) -> bool:
        """Whether the caller is on the loop's own thread."""
        return self._thread is not None and self._thread is threading.current_thread()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; the future may be waited on from any thread.

        At the interpreter's end it is cancelled: what an app left open is collected there, and a thread
        that is started then never begins.
        """
        if sys.is_finalizing():
            work.close()
            never: Future[T] = Future()
            never.cancel()
            return never
        return asyncio.run_coroutine_threadsafe(work, self.loop())

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the loop that nobody waits for."""
        if self.is_current():
            task = self.loop().create_task(work)
            self._tasks.add(task)  # the loop itself has only a weak hold on it
            task.add_done_callback(self._tasks.discard)
        else:
            self.submit(work)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it.

        Raises:
            SyncCallError: called from the loop's own thread, where waiting would never end.
        """
        if self.is_current():
            work.close()
            raise SyncCallError(
                "engine.sync was called from the engine's own thread, for example from an event "
                "handler; use the async methods of the engine there"
            )
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def share(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and await it from any other loop.

        The caller's loop may block meanwhile, and a caller that is cancelled does not tear the work.
        """
        if self.is_current():
            return await work
        return await self.outcome(self.submit(work))

    async def outcome(self, future: Future[T]) -> T:
        """Await what was submitted, from any loop; who is cancelled does not tear it."""
        await settled(future)
        return future.result()

    def close(self) -> None:
        """Stop the loop; a later use starts a new one."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        _stop(loop)
        if thread is not threading.current_thread():
            thread.join(timeout=2)


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    """Stop a loop from any thread; its thread ends with it."""
    with suppress(RuntimeError):  # closed already
        loop.call_soon_threadsafe(loop.stop)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """End what still runs on a loop that stops."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
