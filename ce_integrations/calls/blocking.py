"""Asks what can only be waited for from code that must not wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar


Result = TypeVar("Result")


async def on_a_thread(ask: Callable[[], Result]) -> Result:
    """Run `ask` in the caller's context on a daemon thread of its own, and await it.

    A model that hangs must not hold up the end of the process, nor fill the threads of the app's
    executor. Who waits may be cancelled; the thread goes on.
    """
    done: Future[Result] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - handed on to who waits
            done.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run,), name="ce-llm", daemon=True).start()
    return await asyncio.wrap_future(done)
