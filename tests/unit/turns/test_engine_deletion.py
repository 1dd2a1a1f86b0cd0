"""Sessions, evidence and users' data are deleted, and stay so whatever goes on (A-30, B-08)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest

from ce_engine import (
    Answer,
    BudgetConfig,
    ContextEngine,
    DeletionReport,
    Event,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    SchemaValidationError,
    Scope,
    ScopeViolationError,
    SessionDocument,
    SessionNotFoundError,
    SourceKind,
    Store,
    StoreConfig,
    StoreUnavailableError,
    TurnAmbiguousError,
    TurnStatus,
    Usage,
    create_context_engine,
    open_store,
)
from ce_engine.schema.rows import AppendEvents, EventChain
from ce_engine.testing import samples
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


CANARY = "xyzzy-plugh"
SCOPE = Scope(session_id="s", user_id="u", account_id="a")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))  # a busy machine is no fault here
NOTHING = DeletionReport()
Opened = Callable[[], ContextEngine]


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Make engines over one store, each as if in a process of its own."""
    engines: list[ContextEngine] = []
    shared: Store = MemoryStore()

    def open_one() -> ContextEngine:
        here = request.param == "memory"
        store = shared if here else open_store(f"sqlite:///{tmp_path / 'ce.db'}")
        engines.append(create_context_engine(store, config=PATIENT))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.sync.close()


@pytest.fixture
def engine(opened: Opened) -> ContextEngine:
    return opened()


def stored(engine: ContextEngine, scope: Scope = SCOPE) -> SessionDocument | None:
    engine.sync.flush()
    return engine.loop.run(engine.store.get_session(scope))


def texts(engine: ContextEngine, scope: Scope = SCOPE) -> list[str]:
    document = stored(engine, scope)
    return [m.content for m in document.session.messages] if document else []


def talk(engine: ContextEngine, scope: Scope = SCOPE) -> HostApp:
    """Something in every place that may hold content; the host's id of its call is not one."""
    app = HostApp(engine, scope, [system("You help.")])
    asking = app.prepare(user(f"Where is {CANARY}?"), tags={"team": CANARY})
    app.commit(asking, tool_calls(("call_0", "find", {"q": CANARY})), Usage(9, 3, 12))
    answering = app.prepare(tool_result("call_0", f"{CANARY} is here"), new_request=False)
    app.commit(answering, assistant(f"{CANARY}: here."), Usage(20, 5, 25))
    documents = [
        RetrievedDoc(f"All about {CANARY}.", f"doc://{CANARY}", 0.9, metadata={"t": CANARY})
    ]
    hit = Retrieval("library", f"about {CANARY}", documents, "run-2")
    engine.post_retrieval(scope, hit, request_id="request-2", framework="by-hand")
    app.ask("And?", f"That is {CANARY}.")
    engine.sync.record_event(scope, "planner", {"plan": CANARY})
    return app


def in_files(folder: Path) -> bool:
    return any(CANARY.encode() in file.read_bytes() for file in folder.glob("ce.db*"))


@pytest.mark.req("A-30")
def test_a_deleted_session_is_gone_from_every_byte_and_from_memory(
    engine: ContextEngine, tmp_path: Path
) -> None:
    heard: list[Event] = []
    engine.bus.on("deleted", heard.append)
    talk(engine)
    other = Scope(session_id="s", user_id="v", account_id="a")
    HostApp(engine, other).ask("Mine?", "Yours.")
    assert engine.last_report(SCOPE) is not None
    deleted = engine.sync.delete_session(SCOPE)
    assert deleted == DeletionReport(sessions=1, messages=6, evidences=4, tool_calls=2, turns=3)
    assert stored(engine) is None
    assert not in_files(tmp_path)
    assert engine.last_report(SCOPE) is None
    assert CANARY not in repr(engine._sessions.__dict__)
    events = engine.loop.run(engine.store.list_events(SCOPE))
    assert [e.event_type for e in events[:2]] == ["MessageAppended", "MessageAppended"]
    assert all(not (e.payload or e.tags or e.nonce) for e in events[:-1])
    assert events[-1].payload == {"what": "session"}
    assert engine.sync.delete_session(SCOPE) == NOTHING
    assert texts(engine, other) == ["Mine?", "Yours."]
    engine.sync.close()  # subscribers hear on a thread of their own
    assert [(e.event_id, e.session_id) for e in heard] == [(events[-1].event_id, "s")]


@pytest.mark.req("A-30")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in-another-process"])
def test_going_on_begins_a_new_life(opened: Opened, elsewhere: bool) -> None:
    engine = opened()
    deleter = opened() if elsewhere else engine
    talk(engine)
    engine.sync.flush()
    before = engine.loop.run(engine.store.state(SCOPE))
    recalled = HostApp(engine, SCOPE).prepare(user(f"What of {CANARY}?"), request_id="r8")
    assert any(f"{CANARY}: here." in part.content for part in recalled.assembled.parts)
    deleter.sync.delete_session(SCOPE)

    prepared = HostApp(engine, SCOPE).prepare(user(f"What of {CANARY}?"), request_id="r9")
    assert [part.content for part in prepared.assembled.parts] == [f"What of {CANARY}?"]
    app = HostApp(engine, SCOPE)
    app.ask("New?", "Yes.")
    assert texts(engine) == [f"What of {CANARY}?", "New?", "Yes."]
    after = engine.loop.run(engine.store.state(SCOPE))
    assert before is not None
    assert after is not None
    assert after.head.salt != before.head.salt
    assert before.rows[0].key not in {row.key for row in after.rows}
    assert engine.sync.verify(SCOPE).status == "deleted"


@pytest.mark.req("A-30")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in-another-process"])
@pytest.mark.parametrize("end", ["commit", "fail", "finalize"])
def test_a_turn_in_flight_records_nothing(opened: Opened, elsewhere: bool, end: str) -> None:
    engine = opened()
    deleter = opened() if elsewhere else engine
    app = talk(engine)
    prepared = app.prepare(user("One more?"))
    engine.sync.flush()
    engine.chunk(prepared.turn, 0, "It ")
    deleter.sync.delete_session(SCOPE)
    if not elsewhere:
        assert prepared.turn.status is TurnStatus.ABANDONED
        with pytest.raises(TurnAmbiguousError):
            engine.open_turn(SCOPE)
    engine.chunk(prepared.turn, 1, "is.")
    answer = Answer(Message(role=Role.ASSISTANT, content=f"{CANARY} again"))
    if end == "commit":
        engine.sync.commit(prepared.turn, answer, usage=Usage(1, 1, 2))
    elif end == "fail":
        engine.sync.fail(prepared.turn, "Timeout", partial=f"{CANARY} ag")
    else:
        engine.sync.finalize(prepared.turn)
    assert stored(engine) is None
    app = HostApp(engine, SCOPE)
    app.ask("New?", "Yes.")
    assert texts(engine) == ["New?", "Yes."]
    state = engine.loop.run(engine.store.state(SCOPE))
    assert state is not None
    assert state.open_turns == []
    turns = engine.loop.run(engine.store.list_turns(SCOPE))
    assert [turn.status for turn in turns] == [TurnStatus.COMMITTED]
    assert engine.sync.verify(SCOPE).status == "deleted"


@pytest.mark.req("A-30", "B-08")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in-another-process"])
def test_an_ephemeral_session_goes_too(opened: Opened, elsewhere: bool) -> None:
    engine = opened()
    deleter = opened() if elsewhere else engine
    app = HostApp(engine, SCOPE)
    prepared = app.prepare(user(f"{CANARY}?"), ephemeral=True)
    engine.sync.flush()
    assert deleter.sync.delete_user_data("a", "u").sessions == 1
    app.commit(prepared, assistant(f"{CANARY}!"))
    assert stored(engine) is None
    app.messages.clear()
    app.ask("New?", "Yes.", ephemeral=True)
    assert texts(engine) == ["New?", "Yes."]
    [info] = engine.loop.run(
        engine.store.list_sessions(account_id="a", user_id="u", ephemeral=True)
    )
    assert (info.ephemeral, info.turns) == (True, 1)


def test_a_host_that_resends_its_history_has_it_recorded_anew(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    engine.sync.delete_session(SCOPE)
    app.ask("two?", "2")
    assert texts(engine) == ["one?", "1", "two?", "2"]
    app.ask("three?", "3")
    assert texts(engine) == ["one?", "1", "two?", "2", "three?", "3"]


@pytest.mark.req("A-30")
def test_deleted_evidence_stays_deleted_and_can_be_traced(
    engine: ContextEngine, tmp_path: Path
) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    app.commit(app.prepare(user("Where?")), tool_calls(("call_0", "find", {"q": "it"})))
    result = tool_result("call_0", f"{CANARY} is the place")
    app.commit(app.prepare(result, new_request=False), assistant("There."))
    before = stored(engine)
    assert before is not None
    [evidence_id] = [e for e, item in before.evidences.items() if CANARY in item.content]
    answer_id = before.session.messages[3].message_id
    gone = DeletionReport(evidences=1, derived=[answer_id or ""])
    assert engine.sync.delete_evidence(SCOPE, evidence_id) == gone
    assert not in_files(tmp_path)

    prepared = app.prepare(user("Sure?"))
    assert f"{CANARY} is the place" in [part.content for part in prepared.assembled.parts]
    app.commit(prepared, assistant("Yes."))
    after = stored(engine)
    assert after is not None
    assert not in_files(tmp_path)
    found = after.evidences[evidence_id]
    assert (found.content, found.links) == ("", before.evidences[evidence_id].links)
    assert found.source == before.evidences[evidence_id].source
    assert "deleted_at" in found.metadata
    answer = after.session.messages[3]
    assert [ref.evidence_id for ref in answer.refs or ()] == [evidence_id]
    assert [m.content for m in after.session.messages[2:]] == ["", "There.", "Sure?", "Yes."]
    assert engine.sync.delete_evidence(SCOPE, evidence_id) == NOTHING
    assert engine.sync.delete_evidence(SCOPE, "unknown") == NOTHING
    [event] = [
        e for e in engine.loop.run(engine.store.list_events(SCOPE)) if e.event_type == "deleted"
    ]
    assert event.payload == {"what": "evidence", "evidence_id": evidence_id}
    [part] = engine.sync.verify(SCOPE).deleted
    assert (part.what, part.evidence_id, part.seq) == ("evidence", evidence_id, event.seq)


DOCUMENT = f"""Handbook of the {CANARY}.
The gate code of the north warehouse is 7391, and it is changed in spring.
Whoever tells it to anybody else will have to count all the boxes again."""


def quote(engine: ContextEngine) -> HostApp:
    """A chain that puts a document into its prompt, and a model that quotes it."""
    app = HostApp(engine, SCOPE)
    app.ask("Hello?", "Hello.")
    documents = [RetrievedDoc(DOCUMENT, "doc://handbook", 0.9)]
    hit = Retrieval("library", "gate code", documents, "run-1")
    engine.post_retrieval(SCOPE, hit, request_id="request-1", framework="by-hand")
    prompt = f"Answer from this:\n\n{DOCUMENT}\n\nQuestion: what is the gate code?"
    app.ask(prompt, f"It says: “{DOCUMENT.splitlines()[1]}” So it is that.")
    app.ask("In short?", "Seven, three, nine, one.")
    engine.sync.record_event(SCOPE, "planner", {"plan": f"First read: {DOCUMENT}"})
    return app


class Busy(MemoryStore):
    """As soon as somebody has read the log, another process writes to it."""

    writes: list[Event]

    async def chain(self, scope: Scope) -> EventChain | None:
        chain = await super().chain(scope)
        if self.writes:
            await self.apply(scope, [AppendEvents([self.writes.pop()])])
        return chain


@pytest.mark.req("A-30")
def test_an_event_that_comes_while_evidence_is_deleted_loses_its_words_too() -> None:
    store = Busy()
    engine = create_context_engine(store, config=PATIENT)
    store.writes = []
    evidence = engine.sync.record_evidence(
        SCOPE, DOCUMENT, EvidenceSource(kind=SourceKind.RAG), EvidenceType.RAG_DOC
    )
    assert engine.sync.flush()
    store.writes = [samples.event("e9", SCOPE, payload={"plan": DOCUMENT})]
    assert engine.sync.delete_evidence(SCOPE, evidence.evidence_id).evidences == 1
    assert store.writes == []
    assert DOCUMENT not in repr([e.payload for e in engine.sync.list_events(SCOPE)])
    store.writes = [samples.event(f"f{n}", SCOPE) for n in range(99)]
    other = engine.sync.record_evidence(
        SCOPE, CANARY, EvidenceSource(kind=SourceKind.RAG), EvidenceType.RAG_DOC
    )
    assert engine.sync.delete_evidence(SCOPE, other.evidence_id).evidences == 1, "however busy"
    assert store.writes
    engine.sync.close()


@pytest.mark.req("A-30")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in-another-process"])
def test_the_text_of_deleted_evidence_goes_from_wherever_it_was_quoted(
    opened: Opened, elsewhere: bool, tmp_path: Path
) -> None:
    engine = opened()
    deleter = opened() if elsewhere else engine
    app = quote(engine)
    before = stored(engine)
    assert before is not None
    [evidence_id] = [e for e, item in before.evidences.items() if item.content == DOCUMENT]
    hello, asking, quoting, _, short = [m.message_id for m in before.session.messages][1:]

    done = deleter.sync.delete_evidence(SCOPE, evidence_id)
    assert done.evidences == 1
    assert {asking, quoting} <= set(done.cleared)
    assert done.derived == [quoting, short]
    assert hello not in done.derived
    assert texts(engine) == [
        "Hello?",
        "Hello.",
        "Answer from this:\n\n[deleted]\n\nQuestion: what is the gate code?",
        "It says: “[deleted]” So it is that.",
        "In short?",
        "Seven, three, nine, one.",
    ]
    assert not in_files(tmp_path)
    events = engine.loop.run(engine.store.list_events(SCOPE))
    [planned] = [e for e in events if e.event_type == "Recorded"]
    assert (planned.payload, planned.nonce) == ({}, "")
    assert engine.sync.verify(SCOPE).status == "deleted"
    assert "north warehouse" not in repr(engine._sessions.__dict__)

    app.ask("Are you sure?", "Yes.")  # the host resends all of it, which brings nothing back
    assert texts(engine)[6:] == ["Are you sure?", "Yes."]
    assert not in_files(tmp_path)
    assert engine.sync.delete_evidence(SCOPE, evidence_id) == NOTHING


@pytest.mark.req("A-30")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in-another-process"])
def test_deleted_evidence_is_found_no_more(opened: Opened, elsewhere: bool) -> None:
    engine = opened()
    deleter = opened() if elsewhere else engine
    rag = EvidenceSource(kind=SourceKind.RAG, name="library")

    def record() -> str:
        found = engine.sync.record_evidence(
            SCOPE, f"{CANARY} is a word.", rag, EvidenceType.RAG_DOC
        )
        return found.evidence_id

    app = HostApp(engine, SCOPE)
    for n in range(12):
        app.ask(f"Tell me about topic {n}. " + "Please. " * 30, f"Topic {n} is nice. " * 20)
    tight = RuntimeConfig(budget=BudgetConfig(max_input_tokens=900))

    def injected() -> bool:
        prepared = app.prepare(user(f"What does {CANARY} mean?"), config=tight)
        app.commit(prepared, assistant("Well."))
        return any(f"{CANARY} is a word" in part.content for part in prepared.assembled.parts)

    evidence_id = record()
    assert injected()
    pending = app.prepare(user("Meanwhile?"))
    engine.sync.flush()
    deleter.sync.delete_evidence(SCOPE, evidence_id)
    engine.sync.commit(pending.turn, Answer(Message(role=Role.ASSISTANT, content="Done.")))
    assert not injected()
    assert record() == evidence_id
    assert not injected()
    document = stored(engine)
    assert document is not None
    assert document.evidences[evidence_id].content == ""
    assert "Done." in texts(engine)


@pytest.mark.req("B-08", "A-30")
def test_a_users_data_are_those_of_exactly_this_user(engine: ContextEngine) -> None:
    mine = [Scope(session_id=f"s{n}", user_id="u", account_id="a") for n in range(3)]
    mine += [Scope(session_id="p", user_id="u", account_id="a", project_id="other")]
    others = [("", "a"), ("u", ""), ("U", "a"), ("u%", "a"), ("v", "b")]
    theirs = [Scope(session_id="s0", user_id=user, account_id=account) for user, account in others]
    for n, scope in enumerate([*mine, *theirs]):
        HostApp(engine, scope).ask(f"{n}?", f"{n}!", ephemeral=n == 2)
    gone = engine.sync.delete_user_data("a", "u")
    assert gone == DeletionReport(sessions=4, messages=8, evidences=4, turns=4)
    assert [texts(engine, scope) for scope in mine] == [[]] * 4
    assert [engine.last_report(scope) for scope in mine] == [None] * 4
    assert [len(texts(engine, scope)) for scope in theirs] == [2] * 5
    assert engine.sync.delete_user_data("a", "u") == NOTHING
    everybody: Any = None
    with pytest.raises(SchemaValidationError, match="user_id"):
        engine.sync.delete_user_data("a", everybody)
    assert [len(texts(engine, scope)) for scope in theirs] == [2] * 5
    assert engine.sync.delete_user_data("a", "").sessions == 1


@pytest.mark.req("A-30", "D-10")
def test_another_projects_session_is_not_deleted(engine: ContextEngine) -> None:
    HostApp(engine, SCOPE).ask("one?", "1")
    foreign = Scope(session_id="s", user_id="u", account_id="a", project_id="other")
    for refused in (
        lambda: engine.sync.delete_session(foreign),
        lambda: engine.sync.delete_evidence(foreign, "e"),
        lambda: engine.sync.verify(foreign),
    ):
        with pytest.raises(ScopeViolationError):
            refused()
    assert texts(engine) == ["one?", "1"]


@pytest.mark.req("A-30")
def test_bytes_that_cannot_go_now_are_said_and_go_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ce_engine.stores.tables.store._PURGE_S", 0.1)
    engine = create_context_engine(f"sqlite:///{tmp_path / 'ce.db'}", config=PATIENT)
    talk(engine)
    engine.sync.flush()
    with closing(sqlite3.connect(tmp_path / "ce.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM ce_messages").fetchone()
        with pytest.raises(StoreUnavailableError, match="it is deleted, but bytes"):
            engine.sync.delete_session(SCOPE)
        assert in_files(tmp_path)
    assert stored(engine) is None
    assert engine.sync.delete_session(SCOPE) == NOTHING
    assert not in_files(tmp_path)
    engine.sync.close()


async def test_it_is_awaited_on_any_loop(engine: ContextEngine) -> None:
    await engine.record_event(SCOPE, "planner", {"plan": CANARY})
    assert (await engine.verify(SCOPE)).status == "intact"
    assert (await engine.delete_evidence(SCOPE, "e")) == NOTHING
    assert (await engine.delete_session(SCOPE)).sessions == 1
    assert (await engine.delete_user_data("a", "u")) == NOTHING
    assert (await engine.verify(SCOPE)).status == "deleted"


def test_what_cannot_be_deleted_now_is_said_and_done_later() -> None:
    store = SwitchStore()
    quick = RuntimeConfig(store=StoreConfig(deadline_s=0.05, breaker_s=0.05))
    engine = create_context_engine(store, config=quick)
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    engine.sync.flush()
    store.refuses = True
    with pytest.raises(StoreUnavailableError):
        engine.sync.delete_session(SCOPE)
    with pytest.raises(StoreUnavailableError):
        engine.sync.delete_evidence(SCOPE, "e")
    store.refuses = False
    assert texts(engine) == ["one?", "1"]
    assert engine.sync.delete_session(SCOPE).sessions == 1
    engine.sync.close()


def test_what_still_waited_for_the_store_is_not_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ce_engine.audit.deletion.STORE_S", 0.1)
    store = SwitchStore()
    quick = RuntimeConfig(store=StoreConfig(deadline_s=0.05, breaker_s=0.05))
    engine = create_context_engine(store, config=quick)
    app = HostApp(engine, SCOPE)
    app.ask("one?", "1")
    store.refuses = True
    app.ask("two?", "2")
    with pytest.raises(StoreUnavailableError):
        engine.sync.delete_session(SCOPE)
    with pytest.raises(StoreUnavailableError):
        engine.sync.delete_user_data("a", "u")
    store.refuses = False
    monkeypatch.undo()
    assert engine.sync.delete_session(SCOPE).messages == 4
    assert stored(engine) is None
    engine.sync.close()


@pytest.mark.req("B-08")
@pytest.mark.parametrize("is_own", [True, False])
def test_what_comes_late_to_a_deleted_session_is_not_stored_and_that_is_told(
    is_own: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    engine, other = create_context_engine(url), create_context_engine(url)
    app = HostApp(engine, SCOPE)
    asked = app.prepare(user("Who knows?"))
    assert engine.sync.flush()
    (engine if is_own else other).sync.delete_session(SCOPE)
    app.commit(asked, assistant("Nobody."))
    assert engine.sync.flush()
    assert "deleted while a call of it was under way" in caplog.text
    assert other.sync.get_session(SCOPE) is None
    assert other.sync.list_sessions(account_id=SCOPE.account_id, user_id=SCOPE.user_id) == []
    app.ask("And now?", "Now, too.")
    assert caplog.text.count("under way") == 1
    for each in (engine, other):
        each.sync.close()


@pytest.mark.req("B-08")
@pytest.mark.parametrize("fail", ["open", "closed"])
def test_by_hand_what_comes_late_to_a_deleted_session_is_not_acknowledged(
    fail: Literal["open", "closed"], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    config = RuntimeConfig(fail=fail, store=StoreConfig(deadline_s=30))
    engine, other = (create_context_engine(url, config=config) for _ in range(2))
    engine.sync.prepare_turn(SCOPE, Message(role=Role.USER, content="Who knows?"))
    other.sync.delete_session(SCOPE)
    answer = Message(role=Role.ASSISTANT, content="Nobody.")
    if fail == "closed":
        with pytest.raises(SessionNotFoundError, match="was deleted while a call"):
            engine.sync.commit_assistant_message(SCOPE, answer)
    else:
        put = engine.sync.commit_assistant_message(SCOPE, answer)
        assert (put.success, put.error) == (False, SessionNotFoundError.code)
    assert other.sync.get_session(SCOPE) is None
    engine.sync.prepare_turn(SCOPE, Message(role=Role.USER, content="And now?"))
    assert engine.sync.commit_assistant_message(SCOPE, answer).success
    for each in (engine, other):
        each.sync.close()
