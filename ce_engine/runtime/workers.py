"""Threads for what takes long, so that the one loop of all sessions goes on meanwhile."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

from ce_engine.runtime.fork import renew_after_fork
from ce_engine.runtime.waiting import settled
from ce_engine.schema.time_limits import paced


T = TypeVar("T")

AT_ONCE = 32
IDLE_S = 5.0
"""A thread that has had nothing to do for so long ends: an engine that is let go leaves none behind."""

_Job = tuple["Future[Any]", Callable[[], Any]]


class Workers:
    """A few daemon threads, started when there is work for them."""

    def __init__(self, name: str = "ce-worker") -> None:
        self._name = name
        self._reset()
        renew_after_fork(self._reset)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._threads = self._idle = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Run work on a thread, in the caller's context and `paced`, and await it from any loop.

        Who is cancelled waits for its end all the same: what the work changes is locked by its caller.
        """
        future: Future[T] = Future()
        context = copy_context()
        self._submit(future, lambda: context.run(paced, work))
        await _ended(future)
        return future.result()

    def _submit(self, future: Future[T], work: Callable[[], T]) -> None:
        with self._changed:
            self._jobs.append((future, work))
            if self._idle >= len(self._jobs):
                self._changed.notify()
                return
            if self._threads >= AT_ONCE:
                return  # the first that is done takes it
            self._threads += 1
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError:  # the interpreter is ending, or has too many: here, then
            with self._changed:
                self._threads -= 1
                own_jobs = [job for job in self._jobs if job[0] is future]
                for job in own_jobs:
                    self._jobs.remove(job)
            for job in own_jobs:
                _do(*job)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            _do(*job)
            del job  # an idle thread keeps nobody's content

    def _next(self) -> _Job | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._jobs, IDLE_S)
            self._idle -= 1
            if not self._jobs:
                self._threads -= 1
                return None
            return self._jobs.popleft()


def _do(future: Future[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it is the caller's, on another thread
        future.set_exception(error)
    else:
        future.set_result(result)


async def _ended(future: Future[Any]) -> None:
    try:
        await settled(future)
    except BaseException:
        while not future.done():
            with suppress(BaseException):
                await settled(future)
        raise
