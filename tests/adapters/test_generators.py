"""A block of `ce_session` or `ce_role` in a generator: for what runs in it, and not for its caller (decision 9)."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, nullcontext
from contextvars import copy_context
from itertools import zip_longest
from typing import Any

import pytest

from ce_integrations import CallInfo, ce_role, ce_session
from ce_integrations.calls.agent_steps import Step, deeper, stepping
from ce_integrations.identity.session import Choice, chosen_session, resolve
from ce_integrations.identity.team_role import current_role
from tests.faults.worker_apps import nested


NOBODY = "nobody"


def whose() -> str:
    """Whose session a call here is in."""
    found = resolve(CallInfo(), Choice())
    return NOBODY if found.ephemeral else found.scope.session_id


def seen(user: str, times: int = 3) -> Iterator[str]:
    with ce_session(user):
        for _ in range(times):
            yield whose()


async def aseen(user: str, times: int = 3) -> AsyncIterator[str]:
    async with ce_session(user):
        for _ in range(times):
            await asyncio.sleep(0)
            yield whose()


def test_a_paused_generator_says_nothing_to_its_caller() -> None:
    ann = seen("ann")
    assert next(ann) == "ann"
    assert whose() == NOBODY
    with ce_session("caller"):
        assert (next(ann), whose()) == ("ann", "caller")
    assert (list(ann), whose()) == (["ann"], NOBODY)


async def test_a_paused_async_generator_says_nothing_to_its_caller() -> None:
    ann = aseen("ann")
    assert await anext(ann) == "ann"
    assert whose() == NOBODY
    async with ce_session("caller"):
        assert (await anext(ann), whose()) == ("ann", "caller")
    assert ([each async for each in ann], whose()) == (["ann"], NOBODY)


def test_generators_that_take_turns_do_not_mix() -> None:
    with ce_session("caller"):
        turns = list(zip_longest(seen("ann", 2), seen("bob", 4), seen("安娜", 3)))
        assert whose() == "caller"
    assert turns == [
        ("ann", "bob", "安娜"),
        ("ann", "bob", "安娜"),
        (None, "bob", "安娜"),
        (None, "bob", None),
    ]
    assert whose() == NOBODY


async def test_async_generators_that_take_turns_do_not_mix() -> None:
    ann, bob = aseen("ann", 2), aseen("bob", 3)
    turns = [await anext(each, None) for _ in range(4) for each in (ann, bob)]
    assert turns == ["ann", "bob", "ann", "bob", None, "bob", None, None]
    assert whose() == NOBODY


def test_what_runs_in_the_generator_is_in_its_block() -> None:
    def outer() -> Iterator[tuple[str, str, str]]:
        with ce_session("outer", user_id="u"):
            inner = seen("inner")
            yield whose(), next(inner), whose()
            yield from ((whose(), each, whose()) for each in inner)
            with ce_session("deeper"):
                yield whose(), resolve(CallInfo(), Choice()).scope.user_id, whose()

    assert list(outer()) == [
        *[("outer", "inner", "outer")] * 3,
        ("deeper", "u", "deeper"),
    ]


def test_the_role_does_not_leak_either() -> None:
    def working() -> Iterator[str]:
        with ce_role("worker"):
            yield current_role()[0]
            yield current_role()[0]

    one = working()
    assert (next(one), current_role()[0], next(one)) == ("worker", "agent", "worker")


@contextmanager
def block_of(user: str) -> Iterator[str]:
    with ce_session(user):
        yield user


@contextmanager
def block_in_a_block(user: str) -> Iterator[str]:
    with block_of(user) as one, ExitStack() as stack:
        stack.enter_context(ce_role("worker"))
        yield one


@asynccontextmanager
async def ablock_of(user: str) -> AsyncIterator[str]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(ce_session(user))
        yield user


class Block:
    """An app's own `with`, which holds a block of ours."""

    def __init__(self, user: str) -> None:
        self.block = ce_session(user)

    def __enter__(self) -> None:
        self.block.__enter__()

    def __exit__(self, *_: object) -> None:
        self.block.__exit__(None, None, None)


BLOCKS: list[Callable[[str], Any]] = [block_of, block_in_a_block, Block, ce_session]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_body_of_a_with_is_in_the_block_that_it_opens(block: Callable[[str], Any]) -> None:
    with block("ann"):
        assert whose() == "ann"
    assert whose() == NOBODY

    def chunks(user: str) -> Iterator[str]:
        with block(user):
            yield whose()
            yield whose()

    ann, bob = chunks("ann"), chunks("bob")
    assert (next(ann), next(bob), whose()) == ("ann", "bob", NOBODY)
    assert (list(ann), list(bob), whose()) == (["ann"], ["bob"], NOBODY)


async def test_the_body_of_an_async_with_is_in_the_block_that_it_opens() -> None:
    async with ablock_of("ann"):
        assert (whose(), await asyncio.create_task(awhose())) == ("ann", "ann")
    assert whose() == NOBODY

    async def chunks(user: str) -> AsyncIterator[str]:
        async with ablock_of(user):
            yield whose()
            yield whose()

    ann, bob = chunks("ann"), chunks("bob")
    assert (await anext(ann), await anext(bob), whose()) == ("ann", "bob", NOBODY)
    assert [each async for each in ann] == ["ann"]
    assert (await anext(bob), whose()) == ("bob", NOBODY)


@pytest.fixture
def in_a_block() -> Iterator[None]:
    with ce_session("fixture"):
        yield


@pytest.mark.usefixtures("in_a_block")
def test_a_test_is_in_the_block_of_its_fixture() -> None:
    assert whose() == "fixture"


async def awhose() -> str:
    return whose()


async def test_tasks_inherit_the_block_that_they_begin_in() -> None:
    asked = asyncio.Event()

    async def later() -> list[str]:
        first = whose()
        await asked.wait()
        return [first, whose(), *await asyncio.gather(awhose(), awhose())]

    async def chunks() -> AsyncIterator[list[str]]:
        with ce_session("ann"):
            task = asyncio.create_task(later())
            yield [*await asyncio.gather(awhose(), asyncio.to_thread(whose))]
            yield await task

    stream = chunks()
    assert await anext(stream) == ["ann", "ann"]
    asked.set()
    await asyncio.sleep(0.01)  # the task goes on while its generator waits
    assert whose() == NOBODY
    assert await anext(stream) == ["ann"] * 4


async def test_tasks_inherit_the_innermost_block() -> None:
    async def in_a_block_of_its_own() -> list[str]:
        async with ce_session("inner"):
            return [*await asyncio.gather(awhose(), asyncio.to_thread(whose))]

    async def around() -> AsyncIterator[list[str]]:
        yield await in_a_block_of_its_own()  # as a tool that a framework's generator runs

    async def chunks(block: Callable[[str], Any]) -> AsyncIterator[list[str]]:
        with ce_session("outer"):
            yield await in_a_block_of_its_own()
            yield await anext(around())
            with block("nested"):
                yield [*await asyncio.gather(awhose(), asyncio.to_thread(whose))]
            yield [*await asyncio.gather(awhose())]

    for block in BLOCKS:
        found = [each async for each in chunks(block)]
        assert found == [["inner"] * 2, ["inner"] * 2, ["nested"] * 2, ["outer"]]


async def test_tasks_of_the_caller_of_a_paused_generator_are_not_in_its_block() -> None:
    ann = aseen("ann")
    await anext(ann)
    assert {*await asyncio.gather(awhose(), asyncio.to_thread(whose))} == {NOBODY}
    async with ce_session("caller"):
        assert "ann" not in await asyncio.gather(awhose(), asyncio.to_thread(whose))
    assert await anext(ann) == "ann"


async def test_tasks_of_generators_that_take_turns_are_never_in_the_others_block() -> None:
    async def at_once(user: str) -> AsyncIterator[list[str]]:
        with ce_session(user):
            for _ in range(3):
                yield [*await asyncio.gather(awhose(), asyncio.to_thread(whose))]

    async def later(user: str) -> AsyncIterator[list[str]]:
        with ce_session(user):
            task = asyncio.create_task(awhose())  # begins when the other one is at work
            yield []
            yield [await task]

    for make in (at_once, later):
        streams = {user: make(user) for user in ("ann", "bob")}
        for _ in range(2):
            for user, stream in streams.items():
                assert {*await anext(stream)} <= {user, NOBODY}
        assert whose() == NOBODY


def test_threads_that_take_turns_with_a_generator() -> None:
    """As web servers step through the generator of an answer: each step in a thread and context of its own."""
    ann, bob = seen("ann"), seen("bob")
    with ThreadPoolExecutor(1) as pool:
        steps = [
            pool.submit(copy_context().run, next, each).result()
            for each in (ann, bob, ann, bob, ann, bob)
        ]
        assert steps == ["ann", "bob"] * 3
        assert pool.submit(whose).result() == NOBODY
        ann.close()  # type: ignore[attr-defined]
    assert whose() == NOBODY


def test_threads_begun_in_a_generator_inherit_its_block() -> None:
    def chunks(user: str) -> Iterator[list[str]]:
        with ce_session(user), ThreadPoolExecutor(2) as pool:
            for _ in range(2):
                yield [pool.submit(copy_context().run, whose).result() for _ in range(2)]

    ann = chunks("ann")
    assert next(ann) == ["ann"] * 2
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(copy_context().run, whose).result() == NOBODY
    assert next(ann) == ["ann"] * 2
    assert list(ann) == []


def test_generators_in_many_threads() -> None:
    def work(user: str) -> set[str]:
        return {
            *seen(user, 200),
            *(each for pair in zip(seen(user, 50), seen(user), strict=False) for each in pair),
        }

    users = [f"user {n}" for n in range(16)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, users)) == [{user} for user in users]


def test_an_abandoned_generator_leaves_nothing() -> None:
    for _ in range(3):
        ann = seen("ann")
        next(ann)
        del ann
        gc.collect()
    assert whose() == NOBODY
    left = seen("bob")
    next(left)
    ended = threading.Thread(target=left.close)  # type: ignore[attr-defined]
    ended.start()
    ended.join()
    assert whose() == NOBODY
    with ce_session("caller"):
        assert whose() == "caller"
    assert chosen_session._opened == {}


async def test_an_abandoned_async_generator_leaves_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def leaves() -> None:
        async for _ in aseen("ann"):
            break

    with ce_session("caller"):
        await leaves()
        gc.collect()
        await asyncio.sleep(0)
        ann = aseen("ann")
        await anext(ann)
        await asyncio.create_task(ann.aclose())  # type: ignore[attr-defined]
        assert (whose(), await asyncio.create_task(awhose())) == ("caller", "caller")
    assert whose() == NOBODY
    assert not caplog.records
    assert chosen_session._opened == {}


def test_one_object_in_several_generators() -> None:
    shared = ce_session("shared")

    def chunks() -> Iterator[str]:
        with shared:
            yield whose()
            yield whose()

    one, two = chunks(), chunks()
    assert (next(one), next(two), whose()) == ("shared", "shared", NOBODY)
    assert (list(one), whose(), list(two), whose()) == (["shared"], NOBODY, ["shared"], NOBODY)


async def test_one_object_in_several_tasks() -> None:
    shared, passed = ce_session("shared"), asyncio.Event()

    async def early() -> str:
        async with shared:
            await asyncio.sleep(0)
        return whose()

    async def late() -> str:
        async with shared:
            await passed.wait()
            return whose()

    tasks = [asyncio.create_task(each()) for each in (late, early, late)]
    assert await tasks[1] == NOBODY
    passed.set()
    assert [await tasks[0], await tasks[2]] == ["shared"] * 2


async def test_a_run_that_began_in_a_generator_stays_its_own() -> None:
    """Its parts work while the generator waits, and another one begun by the same task is at work."""
    go, step = asyncio.Event(), Step(None, None)

    async def part() -> str:
        await go.wait()
        async with ablock_of("part"):
            assert whose() == "part"
        return resolve(step.info(), Choice()).scope.session_id

    async def run(user: str) -> AsyncIterator[str]:
        nonlocal step
        with ce_session(user):
            with stepping(deeper(object(), "agent")) as step:
                task = asyncio.create_task(part())
            yield ""
            yield await task

    ann, bob = run("ann"), aseen("bob")
    await anext(ann)
    await anext(bob)
    go.set()
    await anext(bob)
    assert await anext(ann) == "ann"


@pytest.mark.parametrize("has_block", [True, False])
async def test_a_loop_that_runs_again_inside_gives_no_block_to_tasks_of_others(
    has_block: bool,
) -> None:
    """As in a notebook with nest_asyncio: whoever has a turn there has the generator further out on the stack."""
    heard: dict[str, str] = {}
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def bob() -> None:
        await has_begun.wait()
        with ce_session("bob") if has_block else nullcontext():
            heard["bob"] = whose()
            await may_end.wait()
            heard["bob, later"] = whose()

    async def ada() -> AsyncIterator[None]:
        with ce_session("ada"):
            has_begun.set()
            nested(asyncio.sleep(0.01))
            heard["ada"] = whose()
            yield
        may_end.set()

    other = asyncio.create_task(bob())
    async for _ in ada():
        pass
    await other
    name = "bob" if has_block else NOBODY
    assert heard == {"bob": name, "ada": "ada", "bob, later": name}


def test_a_loop_that_runs_in_a_generator_is_in_its_block_and_what_was_left_in_it_is_not() -> None:
    loop, heard = asyncio.new_event_loop(), dict[str, str]()
    may_go = asyncio.Event()

    async def left() -> None:
        await may_go.wait()
        heard["left"] = whose()

    async def ask() -> None:
        may_go.set()
        await asyncio.sleep(0.01)
        heard["asked"] = whose()

    def talk() -> Iterator[None]:
        with ce_session("ada"):
            loop.run_until_complete(ask())
            yield

    async def leave() -> asyncio.Task[None]:
        return asyncio.create_task(left())

    other = loop.run_until_complete(leave())
    list(talk())
    loop.run_until_complete(other)
    loop.close()
    assert heard == {"asked": "ada", "left": NOBODY}
