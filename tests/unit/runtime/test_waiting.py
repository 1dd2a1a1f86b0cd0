"""Waiting with a deadline: what has come in time counts, however busy the loop is."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future

import pytest

from ce_engine.runtime.waiting import settled, within


SECONDS = 0.02


async def keep_busy() -> None:
    """Hold the loop up beyond the deadline."""
    time.sleep(3 * SECONDS)  # noqa: ASYNC251 - as a loop that prepares many calls is


async def answer_of(future: Future[int]) -> int:
    await settled(future)
    return future.result()


async def test_an_answer_that_came_while_the_loop_was_busy_is_no_late_one() -> None:
    future: Future[int] = Future()
    waiting = asyncio.create_task(within(answer_of(future), SECONDS))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(future.set_result, 1)
    await keep_busy()
    assert await waiting == 1


async def test_nor_is_a_future_that_was_done_meanwhile() -> None:
    future: Future[int] = Future()
    waiting = asyncio.create_task(settled(future, SECONDS))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(future.set_result, 1)
    await keep_busy()
    assert await waiting


async def test_what_does_not_come_is_late() -> None:
    future: Future[int] = Future()
    assert not await settled(future, SECONDS)
    with pytest.raises(TimeoutError):
        await within(answer_of(future), SECONDS)


async def test_who_is_cancelled_is_not_told_of_a_deadline() -> None:
    waiting = asyncio.create_task(within(asyncio.sleep(60), 60))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
