"""Every door to the store: nothing personal passes unredacted, facts reach their own request (B-02, A-03)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    Answer,
    Author,
    AuthorKind,
    ConfigError,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    HostMessage,
    MemoryStore,
    Message,
    ModelUsage,
    Origin,
    ProviderKind,
    RedactionConfig,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    SessionDocument,
    SourceKind,
    StoreConfig,
    ToolCall,
    ToolProvider,
    ToolRun,
    TurnStatus,
    Usage,
    create_context_engine,
    open_store,
)
from ce_engine.schema.rows import EvidenceRow, TurnRow
from ce_engine.testing.host import HostApp, assistant, tool_calls, tool_result, user
from ce_engine.turns.record.linked_records import CALLS_BACK
from ce_engine.turns.record.persistence_boundary import MAX_NAME_CHARS
from ce_engine.turns.record.write_group import put_turn
from tests.database import unpacked


SCOPE = Scope(session_id="s")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))  # a busy machine is no fault here
OPEN = PATIENT.model_copy(update={"redaction": RedactionConfig(enabled=False)})
MAIL = "zhang.wei@example.com"
URI = f"https://x/?u={MAIL}"
RAG = EvidenceSource(kind=SourceKind.RAG, name="docs")


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), config=PATIENT)
    yield made
    made.sync.close()


def stored(engine: ContextEngine) -> SessionDocument:
    engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(SCOPE))
    assert found is not None
    return found


def evidence_rows(engine: ContextEngine) -> list[EvidenceRow]:
    ids = list(stored(engine).evidences)
    return engine.loop.run(engine.store.evidence_rows(SCOPE, ids))


def by(author: str, text: str = "hi") -> HostMessage:
    said = Message(role=Role.USER, content=text, author=Author(kind=AuthorKind.USER, id=author))
    return HostMessage(said, Origin.TASK)


# Redaction


def author(app: HostApp) -> None:
    app.commit(app.prepare(by(MAIL)), assistant("1"))


def answer_author(app: HostApp) -> None:
    said = assistant("1")
    said.message.author = Author(kind=AuthorKind.AGENT, id=f"agent of {MAIL}")
    app.commit(app.prepare(user("one?")), said)


def asked_tool(app: HostApp) -> None:
    app.commit(app.prepare(user("one?")), tool_calls(("c", f"write_to_{MAIL}", {})))
    app.prepare(tool_result("c", "sent"))


def args_key(app: HostApp) -> None:
    app.commit(app.prepare(user("one?")), tool_calls(("c", "send", {"to": {MAIL: 1}})))


def model_name(app: HostApp) -> None:
    turn = app.prepare(user("one?")).turn
    answer = Answer(
        assistant("1").message, model=f"tuned-{MAIL}", provider=MAIL, finish_reason=MAIL
    )
    app.engine.sync.commit(turn, answer, usage=Usage(1, 1, 2, details={MAIL: 1}))


def error_code(app: HostApp) -> None:
    app.engine.sync.fail(app.prepare(user("one?")).turn, f"no quota for {MAIL}")


def tags(app: HostApp) -> None:
    app.ask("one?", "1", tags={"customer": MAIL, MAIL: "customer"})


def retrieval(app: HostApp) -> None:
    hit = RetrievedDoc(f"ask {MAIL}", uri=URI, metadata={MAIL: MAIL})
    found = Retrieval(f"docs of {MAIL}", MAIL, [hit], "r", provider_name=MAIL, provider_uri=URI)
    app.engine.post_retrieval(SCOPE, found)


def tool_run(app: HostApp) -> None:
    run = ToolRun(f"mail {MAIL}", {"to": MAIL}, MAIL, "r", provider_name=MAIL, provider_uri=URI)
    app.engine.post_tool_run(SCOPE, run)


def tool_call(app: HostApp) -> None:
    provider = ToolProvider(kind=ProviderKind.BUILTIN, name=MAIL, uri=URI)
    call = ToolCall(
        tool_call_id="c", tool=f"mail {MAIL}", provider=provider, args_digest={"to": MAIL}
    )
    app.engine.sync.record_tool_call(SCOPE, call)


def model_usage(app: HostApp) -> None:
    usage = ModelUsage(
        model_usage_id="u",
        provider=MAIL,
        model=MAIL,
        params={"user": MAIL, MAIL: 1},
        error=f"quota of {MAIL}",
    )
    app.engine.sync.record_model_usage(SCOPE, usage)


def evidence(app: HostApp) -> None:
    source = EvidenceSource(kind=SourceKind.USER, name=MAIL, uri=URI)
    app.engine.sync.record_evidence(
        SCOPE, MAIL, source, EvidenceType.RAG_DOC, metadata={MAIL: MAIL}
    )


def event(app: HostApp) -> None:
    app.engine.sync.record_event(SCOPE, f"hitl by {MAIL}", {MAIL: MAIL})


DOORS = [
    author,
    answer_author,
    asked_tool,
    args_key,
    model_name,
    error_code,
    tags,
    retrieval,
    tool_run,
    tool_call,
    model_usage,
    evidence,
    event,
]


def written(door: Callable[[HostApp], None], folder: Path, config: RuntimeConfig) -> bytes:
    engine = create_context_engine(open_store(f"sqlite:///{folder / 'ce.db'}"), config=config)
    engine.sync.check()
    door(HostApp(engine, SCOPE))
    engine.sync.flush()
    engine.sync.close()
    files = [path.read_bytes() for path in sorted(folder.glob("ce.db*"))]
    return b"".join([*files, *(row.encode() for row in unpacked(folder / "ce.db"))])


@pytest.mark.req("B-02")
@pytest.mark.parametrize("door", DOORS)
def test_no_address_reaches_the_file(door: Callable[[HostApp], None], tmp_path: Path) -> None:
    assert MAIL.encode() not in written(door, tmp_path, PATIENT)


@pytest.mark.parametrize("door", [author, retrieval, tags])
def test_an_address_that_is_not_redacted_is_found_in_the_file(
    door: Callable[[HostApp], None], tmp_path: Path
) -> None:
    assert MAIL.encode() in written(door, tmp_path, OPEN)


def test_plain_names_are_stored_as_they_are(engine: ContextEngine) -> None:
    run = ToolRun("weather", {}, "4", "r", provider_name="met.no", provider_uri="https://met.no/v2")
    engine.post_tool_run(SCOPE, run)
    HostApp(engine, SCOPE).ask("one?", "1", tags={"variant": "b"})
    [call] = stored(engine).session.tool_state.tool_calls
    assert (call.tool, call.provider.name, call.provider.uri) == (
        "weather",
        "met.no",
        "https://met.no/v2",
    )
    events = engine.loop.run(engine.store.list_events(SCOPE))
    assert {e.tags["variant"] for e in events if e.request_id == "request-1"} == {"b"}


def test_a_name_is_bounded(engine: ContextEngine) -> None:
    engine.post_tool_run(SCOPE, ToolRun("long " * 1000, {}, "4", "r"))
    [call] = stored(engine).session.tool_state.tool_calls
    assert len(call.tool) == MAX_NAME_CHARS


@pytest.mark.parametrize("code", ["no quota", "x" * 65, "138-0013-8000", ""])
def test_an_error_code_or_event_kind_is_a_word(engine: ContextEngine, code: str) -> None:
    app = HostApp(engine, SCOPE)
    engine.sync.fail(app.prepare(user("one?")).turn, code or "Timeout")
    engine.sync.record_event(SCOPE, code or "hitl", {})
    stored(engine)
    events = engine.loop.run(engine.store.list_events(SCOPE))
    codes = [e.payload["code"] for e in events if e.event_type == "Error"]
    kinds = [e.kind for e in events if e.event_type == "Recorded"]
    assert (codes, kinds) == ((["error"], ["recorded"]) if code else (["Timeout"], ["hitl"]))


@pytest.mark.req("B-16")
def test_an_author_whose_name_is_redacted_is_recognised(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    for turn in range(3):
        app.commit(app.prepare(by(MAIL, f"question {turn}")), assistant(f"answer {turn}"))
    again = HostApp(engine, SCOPE, [*app.messages])  # mapped anew, as after a restart
    again.messages = [replace(message, recognised=None) for message in app.messages]
    again.prepare(by("li.na@example.com", "question 0"))
    messages = stored(engine).session.messages
    assert len(messages) == 7
    names = [message.author.id for message in messages if message.author]
    assert len(names) == 4
    assert len(set(names)) == 2


def test_an_agent_whose_name_is_redacted_is_recognised(engine: ContextEngine) -> None:
    scope = replace(SCOPE, agent_id=MAIL)
    app = HostApp(engine, scope)
    for turn in range(3):
        app.ask(f"question {turn}", "done")
    assert len(stored(engine).session.messages) == 6


def test_settings_that_would_redact_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="fields is no setting"):
        RuntimeConfig.model_validate({"redaction": {"rules": {"fields": ["$.diagnosis"]}}})


# Facts reach their own request, lane and turn


@pytest.mark.req("A-03")
@pytest.mark.parametrize("between", [0, CALLS_BACK])
def test_a_tool_run_belongs_to_the_call_of_its_own_request(
    engine: ContextEngine, between: int
) -> None:
    oslo, rome = HostApp(engine, SCOPE), HostApp(engine, SCOPE)
    a = oslo.prepare(user("Oslo?"), request_id="r1")
    b = rome.prepare(user("Rome?"), request_id="r2")
    oslo.commit(a, tool_calls(("call_0", "weather", {"city": "Oslo"})))
    for _ in range(between // 2):
        rome.ask("more?", "no", request_id="r3")
    rome.commit(b, tool_calls(("call_0", "weather", {"city": "Rome"})))
    for city, request in (("Oslo", "r1"), ("Rome", "r2")):
        run = ToolRun("weather", {"city": city}, "4", f"run {city}", host_call_id="call_0")
        engine.post_tool_run(SCOPE, run, request_id=request)
    document = stored(engine)
    asked = {m.message_id: m for m in document.session.messages}
    calls = document.session.tool_state.tool_calls
    assert calls
    if between:  # too far back: the newest, as before
        assert {asked_args(asked, call)["city"] for call in calls} == {"Rome"}
    else:
        assert {call.args_digest["city"] for call in calls} == {"Oslo", "Rome"}
        assert all(asked_args(asked, call) == call.args_digest for call in calls)


def asked_args(asked: dict[str | None, Message], call: ToolCall) -> dict[str, Any]:
    requests = asked[call.tool_call_id.rpartition(":")[0]].tool_calls
    assert requests is not None
    return requests[0].args


@pytest.mark.parametrize(
    ("agent", "lane", "expected"), [("", "", ""), ("a", "", "a"), ("a", "l", "l")]
)
def test_facts_are_in_the_lane_that_brought_them(
    engine: ContextEngine, agent: str, lane: str, expected: str
) -> None:
    scope = replace(SCOPE, agent_id=agent)
    hit = Retrieval("docs", "q", [RetrievedDoc("The mill is in Delft.")], "r1")
    engine.post_retrieval(scope, hit, lane_key=lane)
    engine.post_tool_run(scope, ToolRun("weather", {}, "4 degrees", "r2"), lane_key=lane)
    assert [row.lane_key for row in evidence_rows(engine)] == [expected, expected]


@pytest.mark.parametrize("status", [TurnStatus.FAILED, TurnStatus.COMMITTED])
def test_a_retry_and_a_run_s_next_call_still_have_the_documents_of_their_request(
    engine: ContextEngine, status: TurnStatus
) -> None:
    app = HostApp(engine, SCOPE)
    hit = Retrieval("docs", "q", [RetrievedDoc("The mill is in Delft. " * 20)], "run-1")
    engine.post_retrieval(SCOPE, hit, request_id="request-1")
    prepared = app.prepare(user("Where is the mill?"))
    if status is TurnStatus.FAILED:
        engine.sync.fail(prepared.turn, "Timeout", partial="In De")
    else:
        app.commit(prepared, assistant("In Delft."))
    view = engine._sessions.peek(SCOPE)  # what these have
    assert view is not None
    [(name, kept)] = view.requests["request-1"].documents
    assert kept is view.evidence[name].evidence.content, "a second copy of it is kept"


def test_a_turn_that_is_being_written_does_not_change() -> None:
    row = TurnRow("t", report={"errors": ["Timeout"]}, attempts=[{"status": "failed"}])
    write = put_turn(row)
    row.status, row.attempt = TurnStatus.COMMITTED, 2
    row.report["tokens"] = 5
    row.attempts.append({"status": "failed"})
    assert write.turn == TurnRow(
        "t", report={"errors": ["Timeout"]}, attempts=[{"status": "failed"}]
    )


def test_the_error_code_is_in_the_stored_report(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    engine.sync.fail(app.prepare(user("one?")).turn, "Timeout", partial="In De")
    stored(engine)
    [turn] = engine.loop.run(engine.store.list_turns(SCOPE))
    assert turn.report["errors"] == ["Timeout"]


@pytest.mark.req("B-02")
def test_metadata_nested_too_deep_is_left_out_and_the_evidence_is_kept(
    engine: ContextEngine,
) -> None:
    deep: dict[str, Any] = {}
    for _ in range(20_000):
        deep = {"in": deep}
    kept = engine.sync.record_evidence(
        SCOPE, "the handbook", RAG, EvidenceType.RAG_DOC, metadata=deep
    )
    assert (kept.content, "in" in kept.metadata) == ("the handbook", False)
