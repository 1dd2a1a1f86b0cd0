"""Who acts, in generators, threads and tasks: the one who was named there, or nobody who may do anything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial

import pytest

from ce_engine import (
    ContextEngine,
    MemoryStore,
    Scope,
    ScopeViolationError,
    acting_as,
    create_context_engine,
)
from ce_engine.testing.host import HostApp
from tests.hosts.audit_records import Records


LI = Scope(session_id="s", user_id="li")
REFUSED = "refused"
NAMES = {"li": "shown", "eve": REFUSED}


@pytest.fixture
def engine(records: Records) -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), audit=records)
    HostApp(made, LI).ask("Where is the invoice?", "In the blue folder.")
    made.sync.flush()
    yield made
    made.sync.close()


def look(engine: ContextEngine) -> str:
    """What comes of reading the session of `li`."""
    try:
        engine.sync.get_session(LI)
    except ScopeViolationError:
        return REFUSED
    return "shown"


def resolve(engine: ContextEngine) -> str:
    """The same of a door that is no coroutine; the error names the cure."""
    try:
        engine.resolver(LI)
    except ScopeViolationError as error:
        return REFUSED if "copy_context()" in str(error) else "refused without a cure"
    return "shown"


async def alook(engine: ContextEngine) -> str:
    try:
        await engine.get_session(LI)
    except ScopeViolationError:
        return REFUSED
    return "shown"


def looks(engine: ContextEngine, actor: str, times: int = 3) -> Iterator[str]:
    with acting_as(actor):
        for _ in range(times):
            yield look(engine)


async def alooks(engine: ContextEngine, actor: str, times: int = 3) -> AsyncIterator[str]:
    with acting_as(actor):
        for _ in range(times):
            yield await alook(engine)


def test_in_a_generator_it_is_who_was_named_there(engine: ContextEngine) -> None:
    eve, li = looks(engine, "eve"), looks(engine, "li")
    assert (next(eve), next(li), look(engine)) == (REFUSED, "shown", "shown")
    with acting_as("eve"):
        assert (next(li), look(engine)) == ("shown", REFUSED)
    assert (list(eve), list(li), look(engine)) == ([REFUSED] * 2, ["shown"], "shown")


@pytest.mark.parametrize(("actor", "comes"), NAMES.items())
def test_whatever_steps_through_the_generator(
    engine: ContextEngine, actor: str, comes: str
) -> None:
    """As servers do: each step in a thread and a context of its own."""
    stream = looks(engine, actor)
    assert Context().run(next, stream) == comes
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(next, stream).result() == comes
        pool.submit(stream.close).result()  # type: ignore[attr-defined]
    assert look(engine) == "shown"


@pytest.mark.parametrize(("actor", "comes"), NAMES.items())
async def test_whatever_steps_through_the_async_generator(
    engine: ContextEngine, actor: str, comes: str
) -> None:
    stream = alooks(engine, actor)
    for _ in range(2):
        step: asyncio.Task[str] = asyncio.create_task(anext(stream), context=Context())  # type: ignore[arg-type]
        assert await step == comes
    assert await alook(engine) == "shown"
    await asyncio.create_task(stream.aclose())  # type: ignore[attr-defined]
    assert await alook(engine) == "shown"


@pytest.mark.parametrize(("actor", "comes"), NAMES.items())
async def test_what_is_begun_in_the_block_has_the_name(
    engine: ContextEngine, actor: str, comes: str
) -> None:
    async def chunks() -> AsyncIterator[list[str]]:
        with acting_as(actor):
            yield [await asyncio.to_thread(look, engine), *await asyncio.gather(alook(engine))]

    with acting_as(actor):
        found = [await asyncio.to_thread(look, engine), *await asyncio.gather(alook(engine))]
    assert [found, *[each async for each in chunks()]] == [[comes] * 2] * 2


def named(engine: ContextEngine, actor: str) -> str:
    with acting_as(actor):
        return look(engine)


def in_a_thread(run: Callable[[], str]) -> str:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    thread.join()
    return found[0]


def in_a_pool(run: Callable[[], str]) -> str:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


@pytest.mark.parametrize("elsewhere", [in_a_thread, in_a_pool])
def test_a_thread_that_inherits_nothing_may_nothing(
    engine: ContextEngine, records: Records, elsewhere: Callable[[Callable[[], str]], str]
) -> None:
    assert elsewhere(lambda: look(engine)) == "shown", "an app without actors is left alone"
    for actor, comes in NAMES.items():
        with acting_as(actor):
            assert elsewhere(lambda: look(engine)) == REFUSED
            assert records[-1].status == "denied"
            assert records[-1].actor == "?"
            assert elsewhere(lambda: resolve(engine)) == REFUSED
            assert elsewhere(lambda: named(engine, "li")) == "shown"
            assert elsewhere(partial(copy_context().run, look, engine)) == comes
    assert elsewhere(lambda: named(engine, "")) == "shown", "the app itself, which says so"
    assert look(engine) == "shown"


async def test_a_task_of_which_nobody_knows_who_began_it_may_nothing(
    engine: ContextEngine,
) -> None:
    """The generator, or its caller while it waits; and what outlives the generator."""
    left: list[asyncio.Task[str]] = []
    over = asyncio.Event()

    async def later() -> str:
        await over.wait()
        assert await alook(engine) == REFUSED
        return await alook(engine)

    async def chunks() -> AsyncIterator[str]:
        with acting_as("li"):
            left.append(asyncio.create_task(later()))
            yield await alook(engine)
            yield await alook(engine)

    stream = chunks()
    assert await anext(stream) == "shown"
    assert await asyncio.create_task(alook(engine)) == REFUSED
    assert await asyncio.to_thread(look, engine) == REFUSED
    assert [each async for each in stream] == ["shown"]
    over.set()
    assert await left[0] == REFUSED
    assert (await alook(engine), await asyncio.create_task(alook(engine))) == ("shown", "shown")


def test_a_dependency_that_is_entered_in_another_context(engine: ContextEngine) -> None:
    """FastAPI's `def` with a `yield`: what it names holds there, and its end raises nothing."""

    @contextmanager
    def dependency() -> Iterator[None]:
        with acting_as("eve"):
            yield

    entered = dependency()
    copy_context().run(entered.__enter__)
    assert copy_context().run(entered.__exit__, None, None, None) is False
    assert look(engine) == "shown"
