"""At most so many assemblies of a session, one of a lane; beyond, calls go on and nothing is lost (D-12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from ce_engine import (
    Answer,
    BackpressureError,
    BudgetConfig,
    CollectConfig,
    ContextEngine,
    ContextPiece,
    MemoryStore,
    Message,
    Prepared,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.runtime.session_gate import Gate
from ce_engine.schema.enums import TurnStatus
from tests.hosts.context_host import SCOPE, call


pytestmark = pytest.mark.req("D-12")
QUICK = RuntimeConfig(
    store=StoreConfig(deadline_s=0.1, breaker_s=0), collect=CollectConfig(deadline_s=30)
)


class Holds:
    """A source that answers when it is let to: until then, its assembly is under way."""

    name, section = "holds", "knowledge__context"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.free = False

    async def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
        self.asked.append(query)
        while not self.free:  # noqa: ASYNC110 - set from another loop
            await asyncio.sleep(0.005)
        return []


@pytest.fixture
def source() -> Holds:
    return Holds()


@pytest.fixture
async def engine(source: Holds) -> AsyncIterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), sources=[source], config=QUICK)
    yield made
    source.free = True
    await made.close()


def answer(text: str) -> Answer:
    return Answer(Message(role=Role.ASSISTANT, content=text))


async def begin(
    engine: ContextEngine, source: Holds, *lanes: str, **values: Any
) -> list[asyncio.Task[Prepared]]:
    """Begin an assembly in each of these lanes, until all of them are under way."""
    count = len(source.asked) + len(lanes)
    tasks = [
        asyncio.create_task(engine.prepare(call(text=f"in {lane}", lane_key=lane, **values)))
        for lane in lanes
    ]
    while len(source.asked) < count:  # noqa: ASYNC110 - on another loop
        await asyncio.sleep(0.005)
    return tasks


async def texts(engine: ContextEngine) -> list[str]:
    await engine.flush()
    document = await engine.store.get_session(SCOPE)
    return [m.content for m in document.session.messages] if document else []


@pytest.mark.parametrize("lane", ["e", "a"], ids=["fifth of the session", "second of the lane"])
async def test_a_call_without_room_goes_on_and_nothing_of_it_is_lost(
    engine: ContextEngine, source: Holds, lane: str
) -> None:
    running = await begin(engine, source, "a", "b", "c", "d")
    passed = await engine.prepare(call(text="what of me?", lane_key=lane))
    assert passed.unchanged
    assert [part.content for part in passed.assembled.parts] == ["You help.", "what of me?"]
    assert passed.report.degradations == ["CONTEXT_BACKPRESSURE"]
    assert "CONTEXT_BACKPRESSURE" in passed.report.warnings
    await engine.commit(passed.turn, answer("an answer"))
    source.free = True
    for task in running:
        prepared = await task
        assert prepared.report.degradations == []
        await engine.commit(prepared.turn, answer(f"re {prepared.turn.lane}"))
    found = await texts(engine)
    asked = [f"in {n}" for n in "abcd"] + ["what of me?"]
    replies = [f"re {n}" for n in "abcd"] + ["an answer"]
    assert sorted(found) == sorted(asked + replies)
    turns = {turn.turn_id: turn for turn in await engine.store.list_turns(SCOPE)}
    assert turns[passed.turn.turn_id].status is TurnStatus.COMMITTED
    assert turns[passed.turn.turn_id].lane == lane
    codes = [
        event.payload["code"]
        for event in await engine.store.list_events(SCOPE)
        if event.event_type == "Degraded"
    ]
    assert codes == ["CONTEXT_BACKPRESSURE"]
    report = engine.last_report(SCOPE)
    assert report is not None


async def test_a_streamed_answer_without_room_is_whole(
    engine: ContextEngine, source: Holds
) -> None:
    running = await begin(engine, source, "a")
    async with engine._locks.hold(SCOPE.key):  # what it brings cannot be recorded yet
        passed = await engine.prepare(call(text="stream", lane_key="a"))
        engine.chunk(passed.turn, 0, "half ")
        done = asyncio.create_task(engine.finalize(passed.turn))
        other = await engine.prepare(call(text="fails", lane_key="a"))
        failed = asyncio.create_task(engine.fail(other.turn, "Timeout", partial="par"))
        await asyncio.sleep(0)
    await asyncio.gather(done, failed)
    source.free = True
    await running[0]
    assert {"stream", "half ", "fails", "par"} <= set(await texts(engine))


async def test_a_chunk_after_the_queue_is_in_the_same_answer(
    engine: ContextEngine, source: Holds
) -> None:
    running = await begin(engine, source, "a")
    passed = await engine.prepare(call(text="stream", lane_key="a"))
    engine.chunk(passed.turn, 0, "half ")
    await engine.flush()
    engine.chunk(passed.turn, 1, "and half")
    await engine.finalize(passed.turn)
    assert "half and half" in await texts(engine)
    source.free = True
    await running[0]


async def test_a_call_is_let_in_when_there_is_room(engine: ContextEngine, source: Holds) -> None:
    patient = QUICK.model_copy(update={"store": StoreConfig(deadline_s=30)})
    running = await begin(engine, source, "a", "b", "c", "d")
    waiting = asyncio.create_task(engine.prepare(call(text="e", lane_key="e", config=patient)))
    while not engine._gate._rooms[SCOPE.key].queue:  # noqa: ASYNC110 - on another loop
        await asyncio.sleep(0.005)
    assert not waiting.done()
    assert "e" not in source.asked
    source.free = True
    prepared = await waiting
    assert prepared.report.degradations == []
    assert [(await task).report.degradations for task in running] == [[]] * 4


async def test_other_sessions_and_helpers_do_not_wait(engine: ContextEngine, source: Holds) -> None:
    running = await begin(engine, source, "a", "b", "c", "d")
    helper = await engine.prepare(call(text="condense", purpose="helper"))
    assert helper.report.degradations == []
    other = Scope(session_id="another", user_id="u", account_id="a", project_id="p")
    [task] = await begin(engine, source, "a", scope=other)
    source.free = True
    assert (await task).report.degradations == []
    await asyncio.gather(*running)


async def test_closed_it_raises(engine: ContextEngine, source: Holds) -> None:
    running = await begin(engine, source, "a")
    closed = QUICK.model_copy(update={"fail": "closed"})
    with pytest.raises(BackpressureError, match="1 assemblies of this session") as caught:
        await engine.prepare(call(text="no", lane_key="a", config=closed))
    assert caught.value.code == "CONTEXT_BACKPRESSURE"
    source.free = True
    await running[0]
    assert await texts(engine) == ["in a"]


async def test_twenty_at_once_are_all_recorded(engine: ContextEngine, source: Holds) -> None:
    async def turn(n: int) -> Prepared:
        prepared = await engine.prepare(call(text=f"q{n}", lane_key=f"lane {n}"))
        await engine.commit(prepared.turn, answer(f"a{n}"))
        return prepared

    tasks = [asyncio.create_task(turn(n)) for n in range(20)]
    while sum(task.done() for task in tasks) < 16:  # noqa: ASYNC110 - until all that wait went on
        await asyncio.sleep(0.01)
    assert len(source.asked) == 4
    source.free = True
    codes = [(await task).report.degradations for task in tasks]
    assert codes.count([]) == 4
    expected = [f"{kind}{n}" for kind in "aq" for n in range(20)]
    assert sorted(await texts(engine)) == sorted(expected)


async def test_who_waits_for_a_lane_holds_nobody_up_and_who_gives_up_leaves_no_trace() -> None:
    gate, order = Gate(), []

    async def enter(lane: str, until: asyncio.Event) -> None:
        async with gate.enter("s", lane, 2, 30):
            order.append(lane)
            await until.wait()

    ends = {name: asyncio.Event() for name in ("a", "a2", "b", "c")}
    tasks = {}
    for name in ("a", "a2", "b", "c"):
        tasks[name] = asyncio.create_task(enter(name[0], ends[name]))
        await asyncio.sleep(0)
    assert order == ["a", "b"]
    tasks["c"].cancel()
    ends["b"].set()
    await asyncio.gather(tasks["b"], tasks["c"], return_exceptions=True)
    assert order == ["a", "b"]
    ends["a"].set()
    ends["a2"].set()
    await asyncio.gather(tasks["a"], tasks["a2"])
    assert order == ["a", "b", "a"]
    assert gate._rooms == {}


async def test_a_call_without_room_that_is_over_its_budget_is_told(
    engine: ContextEngine, source: Holds, caplog: pytest.LogCaptureFixture
) -> None:
    """It went out whole: nobody had the time to shorten it."""
    running = await begin(engine, source, "a", "b", "c", "d")
    tight = QUICK.model_copy(
        update={"budget": BudgetConfig(max_input_tokens=100, reserved_reply_tokens=0)}
    )
    long = "what of me? " * 60
    passed = await engine.prepare(call(text=long, lane_key="e", config=tight))
    assert [part.content for part in passed.assembled.parts] == ["You help.", long]
    await engine.commit(passed.turn, answer("an answer"))
    source.free = True
    await asyncio.gather(*running)
    await engine.flush()
    [turn] = [t for t in await engine.store.list_turns(SCOPE) if t.lane == "e"]
    assert turn.report["over_budget"]
    assert list(turn.report["over_budget_causes"]) == ["task"]
    [line] = [each for each in caplog.messages if "its budget has 100" in each]
    assert "task message" in line
    assert "what of me" not in line
    again = await engine.replay(SCOPE, turn.turn_id, system=["You help."])
    assert again.equal, again.problems
