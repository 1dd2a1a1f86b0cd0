"""What happened is told: every type of event, stored or on the bus only, and no handler harms a turn (A-20, B-01)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from ce_engine import (
    Answer,
    BudgetConfig,
    ContextEngine,
    Event,
    EventType,
    EvidenceType,
    InMemoryEventBus,
    MemoryStore,
    Message,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    ToolRequest,
    ToolRun,
    create_context_engine,
)
from ce_engine.ports.events import EventHandler
from ce_engine.schema.events import STORED
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="u")
SMALL = RuntimeConfig(budget=BudgetConfig(max_input_tokens=600, reserved_reply_tokens=0))


class Heard(list[Event]):
    """A handler that keeps what it hears."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def types(self) -> list[str]:
        return [event.event_type for event in self]


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def stored(engine: ContextEngine) -> list[Event]:
    engine.sync.flush()
    return engine.loop.run(engine.store.list_events(SCOPE))


def to_be_kept(heard: list[Event], kept: set[str]) -> list[str]:
    """Ids of what is to be stored, in order: not of what its message, or an earlier cut, has told."""
    told = [event for event in heard if event.event_type in STORED]
    cuts = [event for event in told if event.event_type == EventType.PRUNE_COMPLETED]
    assert cuts[0].event_id in kept
    return [
        event.event_id
        for event in told
        if event.payload.get("type") != EvidenceType.LLM_OUTPUT
        and (event not in cuts or event.event_id in kept)
    ]


def busy(engine: ContextEngine) -> None:
    """A tool loop with a retrieval, a streamed answer, a cut, and a failure."""
    app = HostApp(engine, SCOPE, [system("You help.")], framework="by-hand")
    prepared = app.prepare(user("What is the weather?"))
    app.commit(prepared, tool_calls(("c0", "weather", {"city": "Oslo"})))
    run = ToolRun(
        run_id="r0", name="weather", args={"city": "Oslo"}, result="3°", host_call_id="c0"
    )
    engine.post_tool_run(SCOPE, run, request_id="request-1")
    hit = Retrieval(run_id="r1", name="kb", query="Oslo", documents=[RetrievedDoc(text="Cold.")])
    engine.post_retrieval(SCOPE, hit, request_id="request-1")
    prepared = app.prepare(tool_result("c0", "3°"), new_request=False)
    engine.chunk(prepared.turn, 0, "3 degrees")
    engine.sync.finalize(prepared.turn)
    app.messages.append(assistant("3 degrees"))
    for n in range(8):
        app.ask(f"question {n} " + f"asked{n} " * 30, f"answer{n} " * 30, config=SMALL)
    engine.sync.fail(app.prepare(user("and now?")).turn, "Timeout")


@pytest.mark.req("A-20")
def test_every_step_is_told_on_the_bus_after_it_is_stored(engine: ContextEngine) -> None:
    heard = Heard()
    engine.bus.on_all(heard)
    busy(engine)
    kept = [event.event_id for event in stored(engine)]
    engine.sync.close()
    expected = {
        EventType.SESSION_LOADED,
        EventType.MESSAGE_APPENDED,
        EventType.TOOL_CALLED,
        EventType.TOOL_CALL_COMPLETED,
        EventType.EVIDENCE_INGESTED,
        EventType.BLOCKS_DERIVED,
        EventType.PRUNE_COMPLETED,
        EventType.ASSEMBLED,
        EventType.ASSISTANT_CHUNK_RECEIVED,
        EventType.ASSISTANT_MESSAGE_FINALIZED,
        EventType.PERSISTED,
        EventType.ERROR,
    }
    assert expected <= set(heard.types())
    assert to_be_kept(heard, set(kept)) == kept
    assert {event.tags["framework"] for event in heard if event.turn_id} == {"by-hand"}


@pytest.mark.req("A-20")
def test_a_cut_is_in_the_log_once_for_all_turns_that_keep_it(engine: ContextEngine) -> None:
    heard = Heard()
    engine.bus.on_all(heard)
    busy(engine)
    log = [e for e in stored(engine) if e.event_type == EventType.PRUNE_COMPLETED]
    turns = engine.loop.run(engine.store.list_turns(SCOPE))
    engine.sync.close()
    told = [e for e in heard if e.event_type == EventType.PRUNE_COMPLETED]
    cut = [t.turn_id for t in turns if t.report.get("dropped") or t.report.get("shortened")]
    assert [event.turn_id for event in told] == cut, "every one is heard, and in its report"
    assert 0 < len(log) < len(told)


@pytest.mark.req("A-20", "B-01")
def test_the_log_tells_the_same_whether_anybody_listens_or_not(engine: ContextEngine) -> None:
    busy(engine)
    alone = [(event.event_type, event.kind) for event in stored(engine)]
    listened = create_context_engine(MemoryStore())
    listened.bus.on_all(Heard())
    busy(listened)
    assert [(event.event_type, event.kind) for event in stored(listened)] == alone
    listened.sync.close()


@pytest.mark.req("B-01", "B-02")
def test_the_log_has_kinds_and_links(engine: ContextEngine) -> None:
    busy(engine)
    log = stored(engine)
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert {"user_input", "tool_call", "tool_result", "final", "error"} <= {e.kind for e in log}
    called = {e.tool_call_id: e.seq for e in log if e.event_type == EventType.TOOL_CALLED}
    ended = [e for e in log if e.event_type == EventType.TOOL_CALL_COMPLETED]
    assert ended
    for event in ended:
        assert event.tool_call_id in called, "a result links its call (B-02)"
        assert (called[event.tool_call_id] or 0) < (event.seq or 0)
    assert len(called) == 2, "the model's own, and the retrieval"


@pytest.mark.req("A-20")
def test_a_failing_handler_is_logged_once_and_harms_nothing(
    engine: ContextEngine, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()

    async def broken(event: Event) -> None:
        raise RuntimeError("secret words of the handler")

    engine.bus.on_all(broken)
    engine.bus.on_all(heard)
    app = HostApp(engine, SCOPE)
    for n in range(3):
        app.ask(f"q{n}", f"a{n}")
    engine.sync.close()
    assert EventType.PERSISTED in heard.types()
    told = [record for record in caplog.records if "event handler failed" in record.message]
    assert len(told) == 1
    assert "secret words" not in caplog.text


@pytest.mark.req("A-20")
def test_a_handler_that_hangs_holds_up_no_turn(engine: ContextEngine) -> None:
    released = threading.Event()
    engine.bus.on(EventType.MESSAGE_APPENDED, lambda _: released.wait(30))
    app = HostApp(engine, SCOPE)
    for n in range(3):
        app.ask(f"q{n}", f"a{n}")
    engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(SCOPE))
    assert found is not None
    assert len(found.session.messages) == 6
    released.set()


@pytest.mark.req("A-20")
def test_handlers_come_and_go() -> None:
    bus, heard, idle = InMemoryEventBus(), Heard(), []
    idle.append(bus.is_idle)
    bus.on(EventType.ERROR, heard)
    idle.append(bus.is_idle)
    bus.off(EventType.ERROR, heard)
    bus.off(EventType.ERROR, heard)
    idle.append(bus.is_idle)
    assert idle == [True, False, True]


@pytest.mark.req("A-20", "A-14")
def test_chunks_are_told_by_index_and_length_never_by_text(engine: ContextEngine) -> None:
    heard = Heard()
    engine.bus.on(EventType.ASSISTANT_CHUNK_RECEIVED, heard)
    turn = HostApp(engine, SCOPE).prepare(user("hi")).turn
    engine.chunk(turn, 0, "canary-text")
    calls = [ToolRequest(id="c", name="t")]
    answer = Answer(Message(role=Role.ASSISTANT, content="", tool_calls=calls))
    engine.sync.commit(turn, answer)
    engine.sync.close()
    assert [event.payload for event in heard] == [{"index": 0, "length": 11}]


class Elsewhere:
    """A bus of somebody else's, which is down now and then."""

    def __init__(self) -> None:
        self.heard = Heard()

    async def emit(self, event: Event) -> None:
        self.heard(event)
        if len(self.heard) % 2:
            raise ConnectionError("secret words of the bus")

    def on(self, event_type: str, handler: EventHandler) -> None: ...

    def off(self, event_type: str, handler: EventHandler) -> None: ...

    def on_all(self, handler: EventHandler) -> None: ...


@pytest.mark.req("A-20", "A-26")
def test_a_bus_of_somebody_elses_hears_all_and_harms_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = Elsewhere()
    engine = create_context_engine(MemoryStore(), event_bus=bus)
    busy(engine)
    kept = [event.event_id for event in stored(engine)]
    engine.sync.close()
    assert to_be_kept(bus.heard, set(kept)) == kept
    assert caplog.text.count("the event bus failed") == 1
    assert "secret words" not in caplog.text


@pytest.mark.req("A-20")
async def test_a_handler_in_which_something_was_cancelled_harms_nothing() -> None:
    async def cancelled(_: Event) -> None:
        raise asyncio.CancelledError

    bus, heard = InMemoryEventBus(), Heard()
    bus.on_all(cancelled)
    bus.on_all(heard)
    engine = create_context_engine(MemoryStore(), event_bus=bus)
    await engine.prepare_turn("s", Message(role=Role.USER, content="hi"))
    await engine.commit_assistant_message("s", Message(role=Role.ASSISTANT, content="hello"))
    await engine.close()
    assert heard.types().count(EventType.MESSAGE_APPENDED) == 2


async def test_who_emits_can_be_cancelled_while_a_handler_works() -> None:
    begun = asyncio.Event()

    async def slow(_: Event) -> None:
        begun.set()
        await asyncio.Event().wait()

    bus = InMemoryEventBus()
    bus.on_all(slow)
    event = Event(event_type=EventType.ERROR, session_id="s")
    task = asyncio.create_task(bus.emit(event))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
