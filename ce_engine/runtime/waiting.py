"""Waiting on any loop for work of any thread, without a hold on that work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from ce_engine.errors import StoreUnavailableError


T = TypeVar("T")

STORE_S = 5.0
"""How long what may take its time (a deletion, a verification) waits for one answer of a store."""


ROUNDS = 4
"""Of a loop that is behind: what has come in time is heard in them, through the tasks between."""


More = Callable[[], float]
"""Seconds that may be waited beyond a deadline; asked whenever it is over."""


class Timer:
    """Calls `act` on its loop after so many seconds, those that there are `more`, and `ROUNDS`.

    A busy loop is no answer that is late.
    """

    def __init__(self, seconds: float, act: Callable[[], object], more: More | None) -> None:
        self._loop, self._act, self._more = asyncio.get_running_loop(), act, more
        self._wait(seconds)

    def _wait(self, seconds: float) -> None:
        self._rounds = ROUNDS
        self._handle: asyncio.Handle = self._loop.call_later(seconds, self._fire)

    def _fire(self) -> None:
        if self._rounds:
            self._rounds -= 1
            self._handle = self._loop.call_soon(self._fire)
        elif self._more is not None and (seconds := self._more()) > 0:
            self._wait(seconds)
        else:
            self._act()

    def cancel(self) -> None:
        self._handle.cancel()


async def within(work: Awaitable[T], seconds: float, more: More | None = None) -> T:
    """Await work for so long, and as there are `more`.

    Raises:
        TimeoutError: it took longer, and was cancelled.
    """
    async with asyncio.timeout(None) as limit:
        timer = Timer(seconds, lambda: limit.reschedule(0.0), more)
        try:
            return await work
        finally:
            timer.cancel()


async def settled(
    future: Future[Any], timeout_s: float | None = None, more: More | None = None
) -> bool:
    """Wait for a future of any thread; false when the time is over (`None` waits as long as it takes).

    `asyncio.wrap_future` would cancel the work with its waiter, and would call a closed loop.
    """
    if future.done():
        return True
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()
    thread = threading.get_ident()

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the waiter's loop is closed: nobody waits any more
            if threading.get_ident() == thread:
                _finish(waiter)
            else:
                loop.call_soon_threadsafe(_finish, waiter)

    future.add_done_callback(wake)
    timer = None if timeout_s is None else Timer(timeout_s, lambda: _finish(waiter), more)
    try:
        await waiter
    finally:
        if timer is not None:
            timer.cancel()
    return future.done()


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def answered(work: Awaitable[T], seconds: float = STORE_S) -> T:
    """Await the store for so long.

    Raises:
        StoreUnavailableError: it did not answer; what was asked for may still be done.
    """
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError:
        raise StoreUnavailableError(
            f"the store did not answer within {seconds:.0f} s; see that it works: ce doctor"
        ) from None
