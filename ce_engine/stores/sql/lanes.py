"""The store's own threads: jobs in order, answers to any event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from ce_engine.errors import StoreUnavailableError
from ce_engine.stores.sql.link import Link


T = TypeVar("T")
_Job = tuple["Future[Any]", "Callable[[Link], Any] | None"]


class Lane:
    """A queue of jobs and a daemon thread for each link, started with the first job."""

    def __init__(self, name: str, links: Sequence[Link]) -> None:
        self._name = name
        self._closed = False
        self.reset(links)

    def reset(self, links: Sequence[Link]) -> None:
        """Begin again without threads, as a forked child does; what waited is the parent's."""
        self._links = links
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, job: Callable[[Link], T]) -> Future[T]:
        """Accept a job; jobs start in the order of their submission.

        Raises:
            StoreUnavailableError: the lane was stopped.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise StoreUnavailableError("the store was closed; open it again with open_store()")
            if not self._threads:
                self._start()
            self._jobs.put((future, job))
        return future

    def _start(self) -> None:
        for link in self._links:
            thread = threading.Thread(
                target=_work, args=(self._jobs, link), name=f"ce-store-{self._name}", daemon=True
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


def _work(jobs: SimpleQueue[_Job], link: Link) -> None:
    while True:
        future, job = jobs.get()
        if job is None:
            link.close()
            future.set_result(None)
            return
        try:
            result = job(link)
        except BaseException as error:  # noqa: BLE001 - it is the caller's, on another thread
            future.set_exception(error)
        else:
            future.set_result(result)
            del result
        del future, job  # an idle thread keeps nobody's content


async def outcome(future: Future[T]) -> T:
    """Wait for a job without a hold on it: a cancelled waiter cancels nothing.

    `asyncio.wrap_future` would pass the cancellation on, and call a loop that is closed by then.
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_: Future[T]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_finish, waiter)

    future.add_done_callback(wake)
    await waiter
    return future.result()


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
