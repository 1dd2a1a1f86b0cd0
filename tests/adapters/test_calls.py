"""Governed calls whose stream is begun at the call and read later, or never."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from ce_engine import ContextEngine, MemoryStore, create_context_engine
from ce_integrations import Hooks
from ce_integrations.install.adapter import CallInfo, GovernedCall, begun_call
from tests.adapters.odd_uses import Pieces
from tests.adapters.talkers import ANSWER, PIECES, Line, Talker, TalkerAdapter, ended, rows, said


ADAPTER = TalkerAdapter()


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


@pytest.fixture
def hooks(engine: ContextEngine) -> Hooks[Line]:
    return ADAPTER.install_ce(Talker(), engine=engine, session_id="s").hooks


def call_of(hooks: Hooks[Line], talker: Talker, *, described: int = 1) -> GovernedCall[Line]:
    natives = [Line("user", "What is a lane?")]
    left = [described]

    def describe() -> list[tuple[list[Line], CallInfo]]:
        left[0] -= 1
        assert left[0] >= 0, "prepared twice"
        return [(natives, CallInfo())]

    return GovernedCall(hooks, talker, [natives], describe, lambda _, sent: sent)


def opened(hooks: Hooks[Line], talker: Talker) -> Iterator[str]:
    call = call_of(hooks, talker)
    return iter(call.open(lambda goes: talker.begun(goes[0]), str, lambda _: None))


async def aopened(hooks: Hooks[Line], talker: Talker) -> AsyncIterator[str]:
    call = call_of(hooks, talker)
    return await call.aopen(lambda goes: talker.abegun(goes[0]), str, lambda _: None)


async def settled(engine: ContextEngine, hooks: Hooks[Line]) -> tuple[list[Any], list[str]]:
    assert await asyncio.to_thread(hooks.settle, 5)
    return await asyncio.to_thread(ended, engine), await asyncio.to_thread(said, engine)


def test_a_stream_that_is_begun_at_the_call(engine: ContextEngine, hooks: Hooks[Line]) -> None:
    talker = Talker()
    pieces = opened(hooks, talker)
    assert len(talker.sent) == 1
    assert ended(engine) == ["open"]
    assert tuple(pieces) == PIECES
    assert (ended(engine), len(talker.sent)) == (["committed"], 1)
    assert said(engine) == ["What is a lane?", ANSWER]


async def test_a_stream_that_is_begun_at_the_call_and_awaited(
    engine: ContextEngine, hooks: Hooks[Line]
) -> None:
    talker = Talker()
    pieces = await aopened(hooks, talker)
    assert len(talker.sent) == 1
    assert [piece async for piece in pieces] == list(PIECES)
    assert await settled(engine, hooks) == (["committed"], ["What is a lane?", ANSWER])


@pytest.mark.parametrize("kind", [list, tuple, Pieces])
def test_a_stream_that_is_no_iterator(kind: Any, engine: ContextEngine, hooks: Hooks[Line]) -> None:
    given = list(PIECES) if kind is list else PIECES if kind is tuple else Pieces(*PIECES)
    pieces = call_of(hooks, Talker()).open(lambda _: given, str, lambda _: None)
    assert (pieces is given) is (kind is not Pieces)
    assert tuple(pieces) == PIECES
    assert ended(engine) == ["committed"]
    assert said(engine) == ["What is a lane?", ANSWER]


async def test_an_awaited_stream_that_is_no_iterator(
    engine: ContextEngine, hooks: Hooks[Line]
) -> None:
    async def start(_: Any) -> Any:
        return Pieces(*PIECES)

    pieces = await call_of(hooks, Talker()).aopen(start, str, lambda _: None)
    assert [piece async for piece in pieces] == list(PIECES)
    assert await settled(engine, hooks) == (["committed"], ["What is a lane?", ANSWER])


def test_a_stream_that_is_left_is_closed_with_what_gives_it(hooks: Hooks[Line]) -> None:
    class Closing(Pieces):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    given = Closing(*PIECES)
    pieces: Any = call_of(hooks, Talker()).open(lambda _: given, str, lambda _: None)
    assert next(pieces) == PIECES[0]
    pieces.close()
    assert given.closed == 1


async def test_an_error_of_the_call_is_the_app_s_at_once(
    engine: ContextEngine, hooks: Hooks[Line]
) -> None:
    talker = Talker(error=ConnectionError("gone"))
    with pytest.raises(ConnectionError, match="gone"):
        await asyncio.to_thread(opened, hooks, talker)
    with pytest.raises(ConnectionError, match="gone"):
        await aopened(hooks, talker)
    (row,) = await asyncio.to_thread(rows, engine)
    assert [*(each["status"] for each in row.attempts), row.status] == ["failed", "failed"]


def test_a_stream_that_nobody_reads_is_closed(engine: ContextEngine, hooks: Hooks[Line]) -> None:
    pieces = opened(hooks, Talker())
    assert ended(engine) == ["open"]
    del pieces
    gc.collect()
    assert hooks.settle(5)
    assert (ended(engine), said(engine)) == (["incomplete"], ["What is a lane?"])


async def test_an_awaited_stream_that_nobody_reads_is_closed(
    engine: ContextEngine, hooks: Hooks[Line]
) -> None:
    pieces = await aopened(hooks, Talker())
    del pieces
    gc.collect()
    assert await settled(engine, hooks) == (["incomplete"], ["What is a lane?"])


def test_what_was_read_of_a_stream_that_is_dropped_is_kept(
    engine: ContextEngine, hooks: Hooks[Line]
) -> None:
    talker = Talker()
    pieces = opened(hooks, talker)
    assert next(pieces) == PIECES[0]
    del pieces
    gc.collect()
    assert hooks.settle(5)
    assert (ended(engine), talker.left) == (["incomplete"], 1)
    assert said(engine) == ["What is a lane?", PIECES[0]]


@pytest.mark.production_guard
def test_a_call_that_cannot_be_described_is_not_prepared_again(hooks: Hooks[Line]) -> None:
    talker = Talker()
    call = call_of(hooks, talker, described=0)
    pieces = call.open(lambda goes: talker.begun(goes[0]), str, lambda _: None)
    assert tuple(pieces) == PIECES
    assert [fault.kind for fault in hooks.guard.faults] == ["AssertionError"]


@pytest.mark.production_guard
@pytest.mark.parametrize("is_awaited", [False, True])
async def test_a_result_whose_answers_cannot_be_found_closes_its_turn(
    engine: ContextEngine, hooks: Hooks[Line], is_awaited: bool
) -> None:
    def answers(result: Line) -> list[tuple[Line, None]]:
        raise LookupError(result.content)

    talker = Talker()
    call = call_of(hooks, talker)
    if is_awaited:
        result = await call.arun(lambda goes: talker.awaited(goes[0]), answers)
    else:
        result = await asyncio.to_thread(call.run, lambda goes: talker.whole(goes[0]), answers)
    assert result.content == ANSWER
    assert await settled(engine, hooks) == (["failed"], ["What is a lane?"])


def test_a_begun_result_that_nobody_drives_is_closed(
    engine: ContextEngine, hooks: Hooks[Line]
) -> None:
    call = call_of(hooks, Talker())
    result = call.run(lambda _: Talker(), call.begun)
    assert ended(engine) == ["open"]
    del result
    gc.collect()
    assert hooks.settle(5)
    assert ended(engine) == ["incomplete"]


def test_a_begun_result_is_driven_by_who_asks_first(
    engine: ContextEngine, hooks: Hooks[Line]
) -> None:
    talker = Talker()
    call = call_of(hooks, talker)
    result = call.run(lambda _: Talker(), call.begun)
    assert begun_call(result) is call
    assert begun_call(result) is None
    pieces = call.stream(lambda _: talker.begun([]), str, lambda _: None)
    assert next(pieces) == PIECES[0]
    del result
    gc.collect()
    assert [PIECES[0], *pieces] == list(PIECES)
    assert (ended(engine), said(engine)[-1]) == (["committed"], ANSWER)
