"""The store's own threads: jobs in order, answers to any event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from ce_engine.errors import StoreUnavailableError
from ce_engine.runtime.waiting import settled


class WorkerTool(Protocol):
    """What one thread works with."""

    def close(self) -> None: ...


T = TypeVar("T")
W = TypeVar("W", bound=WorkerTool)
_Job = tuple["Future[Any]", "Callable[[Any], Any] | None"]

_NAME = "ce-store-"
_AGAIN_S = 0.1


class WorkerQueue(Generic[W]):
    """A queue of jobs and a daemon thread for each tool, started with the first job."""

    def __init__(self, name: str, tools: Sequence[W]) -> None:
        self._name = name
        self._closed = False
        self.reset(tools)

    def reset(self, tools: Sequence[W]) -> None:
        """Begin again without threads, as a forked child does; what waited is the parent's."""
        self._tools = tools
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, job: Callable[[W], T]) -> Future[T]:
        """Accept a job, which runs in the caller's context; jobs start in the order of their submission.

        Raises:
            StoreUnavailableError: the lane was stopped.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise StoreUnavailableError("the store was closed; open it again with open_store()")
            if not self._threads:
                self._start()
            context = copy_context()
            self._jobs.put((future, lambda tool: context.run(job, tool)))
        return future

    def _start(self) -> None:
        for tool in self._tools:
            thread = threading.Thread(
                target=_work, args=(self._jobs, tool), name=f"{_NAME}{self._name}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                raise StoreUnavailableError(
                    "the store cannot start a thread: the interpreter is ending, or has too many"
                ) from error
            self._threads.append(thread)

    def stop(self) -> list[Future[None]]:
        """Accept no more; the futures end when the threads have done their last jobs."""
        with self._lock:
            self._closed = True
            ends: list[Future[None]] = [Future() for _ in self._threads]
            for end in ends:
                self._jobs.put((end, None))
            self._threads = []
        return ends


def stop_all(lanes: Sequence[WorkerQueue[Any]], timeout_s: float) -> None:
    """Let accepted jobs end; a thread that hangs is left behind."""
    ends: list[Future[None]] = [end for lane in lanes for end in lane.stop()]
    if not threading.current_thread().name.startswith(_NAME):
        wait(ends, timeout=timeout_s)


def _work(jobs: SimpleQueue[_Job], tool: WorkerTool) -> None:
    while True:
        future, job = jobs.get()
        if job is None:
            tool.close()
            future.set_result(None)
            return
        try:
            result = job(tool)
        except BaseException as error:  # noqa: BLE001 - it is the caller's, on another thread
            future.set_exception(error)
        else:
            future.set_result(result)
            del result
        del future, job  # an idle thread keeps nobody's content


async def ended(
    end: Future[None], seconds: float, interrupts: Sequence[Callable[[], None]]
) -> None:
    """Wait for the end of a queue; after so many seconds what keeps it from ending is interrupted."""
    while not await settled(end, seconds):
        for interrupt in interrupts:
            interrupt()
        seconds = _AGAIN_S


async def outcome(future: Future[T]) -> T:
    """Wait for a job without a hold on it: a cancelled waiter cancels nothing."""
    await settled(future)
    return future.result()
