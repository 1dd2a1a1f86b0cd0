"""What is in the store after turns by hand: once each, linked, redacted (A-03, A-13, B-02, B-07)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ce_engine import (
    Answer,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    ModelCall,
    ProviderKind,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    ScopeViolationError,
    SessionDocument,
    SourceKind,
    Store,
    StoreConfig,
    ToolCallStatus,
    ToolRun,
    TurnStatus,
    Usage,
    check_invariants,
    create_context_engine,
    open_store,
)
from ce_engine.schema.event_chain import verify_chain
from ce_engine.schema.ids import chain_keys
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="u", account_id="a")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))  # a busy machine is no fault here


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    return open_store(f"sqlite:///{tmp_path / 'ce.db'}")


@pytest.fixture
def engine(store: Store) -> Iterator[ContextEngine]:
    made = create_context_engine(store, config=PATIENT)
    made.sync.check()
    yield made
    made.sync.close()


@pytest.fixture
def app(engine: ContextEngine) -> HostApp:
    return HostApp(engine, SCOPE, [system("You help.")])


def document(engine: ContextEngine, scope: Scope = SCOPE) -> SessionDocument:
    engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(scope))
    assert found is not None
    assert check_invariants(found) == []
    return found


def contents(doc: SessionDocument) -> list[tuple[str, str]]:
    return [(str(m.role), m.content) for m in doc.session.messages]


@pytest.mark.req("A-13", "B-07", "E-02")
def test_every_message_is_stored_once_and_the_system_prompt_never(app: HostApp) -> None:
    app.ask("one?", "1")
    app.ask("two?", "2")
    app.ask("one?", "1")  # the same words again are another message
    assert contents(document(app.engine)) == [
        ("user", "one?"),
        ("assistant", "1"),
        ("user", "two?"),
        ("assistant", "2"),
        ("user", "one?"),
        ("assistant", "1"),
    ]


@pytest.mark.req("A-03")
def test_a_tool_run_leads_from_answer_to_evidence_to_call(app: HostApp) -> None:
    first = app.prepare(user("weather?"))
    app.commit(first, tool_calls(("call_0", "weather", {"city": "Oslo"})), Usage(9, 3, 12))
    run = ToolRun(
        "weather",
        {"city": "Oslo"},
        "4 degrees",
        run_id="run-1",
        host_call_id="call_0",
        duration_ms=7,
    )
    app.engine.post_tool_run(SCOPE, run, request_id="request-1", framework="by-hand")
    second = app.prepare(tool_result("call_0", "4 degrees"), new_request=False)
    app.commit(second, assistant("It is 4 degrees."), Usage(20, 5, 25))

    doc = document(app.engine)
    asked, answered = doc.session.messages[1], doc.session.messages[3]
    [call] = doc.session.tool_state.tool_calls
    assert call.tool_call_id == f"{asked.message_id}:0"
    assert (call.tool, call.args_digest, call.duration_ms) == ("weather", {"city": "Oslo"}, 7)
    [evidence_id] = call.result_evidence_ids
    evidence = doc.evidences[evidence_id]
    assert evidence.type is EvidenceType.TOOL_RESULT
    assert evidence.content == "4 degrees"
    assert evidence.links.tool_call_id == call.tool_call_id
    assert [r.evidence_id for r in doc.session.messages[2].refs or []] == [evidence_id]
    assert evidence_id in [r.evidence_id for r in answered.refs or []]
    [output] = [e for e in doc.evidences.values() if e.type is EvidenceType.LLM_OUTPUT]
    used = {u.model_usage_id: u for u in doc.session.model_usage}
    assert used[output.links.model_usage_id or ""].total_tokens == 25
    assert [str(u.stage) for u in doc.session.model_usage] == ["tool_call", "answer"]


@pytest.mark.req("A-03")
def test_a_tool_result_that_nobody_reported_is_recorded_from_its_message(app: HostApp) -> None:
    first = app.prepare(user("weather?"))
    app.commit(first, tool_calls(("call_0", "weather", {"city": "Oslo"})))
    second = app.prepare(tool_result("call_0", "no such city", error=True), new_request=False)
    app.commit(second, assistant("Sorry."))
    [call] = document(app.engine).session.tool_state.tool_calls
    assert call.status is ToolCallStatus.ERROR
    assert len(call.result_evidence_ids) == 1


def test_a_result_of_which_nobody_knows_the_call_is_no_run_of_its_own(app: HostApp) -> None:
    """Some frameworks say no more than the result, and a run without a name helps nobody."""
    first = app.prepare(user("北京天气如何?"))
    app.commit(first, tool_calls(("call_0", "weather", {"city": "北京"})))
    failed, city = ToolCallStatus.ERROR, {"city": "北京"}
    run = ToolRun("weather", city, "", status=failed, error="没有", host_call_id="call_0")
    app.engine.post_tool_run(SCOPE, run, request_id="request-1", framework="by-hand")
    lost = tool_result("", "没有这个城市")
    lost.message.tool_call_id, lost.protected = None, True
    second = app.prepare(lost, new_request=False)
    app.commit(second, assistant("我不知道。"))
    doc = document(app.engine)
    [call] = doc.session.tool_state.tool_calls
    assert (call.tool, call.status) == ("weather", failed)
    [found] = [each for each in doc.evidences.values() if each.content == "没有这个城市"]
    assert found.links.tool_call_id is None
    assert check_invariants(doc) == []


def test_the_same_call_id_in_every_turn_is_another_call_each(app: HostApp) -> None:
    for city in ("Oslo", "Rome"):
        first = app.prepare(user(f"{city}?"))
        app.commit(first, tool_calls(("call_0", "weather", {"city": city})))
        app.commit(
            app.prepare(tool_result("call_0", f"fine in {city}"), new_request=False),
            assistant("Fine."),
        )
    doc = document(app.engine)
    calls = doc.session.tool_state.tool_calls
    assert [c.args_digest for c in calls] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert len({c.tool_call_id for c in calls}) == 2
    results = [doc.evidences[c.result_evidence_ids[0]].content for c in calls]
    assert results == ["fine in Oslo", "fine in Rome"]


@pytest.mark.req("A-29", "A-03", "A-09")
def test_a_retrieval_is_a_tool_call_with_documents_stored_once(app: HostApp) -> None:
    docs = [
        RetrievedDoc("Oslo is in Norway.", "kb://oslo", 0.9, {"doc_version": "3", "tags": ["geo"]}),
        RetrievedDoc("Rome is in Italy.", "kb://rome", 0.4),
    ]
    for n in (1, 2):
        hit = Retrieval("kb", "where is Oslo", docs, run_id=f"run-{n}", provider_name="kb")
        app.engine.post_retrieval(SCOPE, hit, request_id=f"request-{n}", framework="by-hand")
        app.ask("where is Oslo?", "In Norway.")
    doc = document(app.engine)
    hits = [e for e in doc.evidences.values() if e.type is EvidenceType.RAG_DOC]
    assert [(e.source.uri, e.confidence) for e in hits] == [("kb://oslo", 0.9), ("kb://rome", 0.4)]
    assert hits[0].metadata["doc_version"] == "3"
    assert hits[0].metadata["tags"] == ["geo"]
    first, second = doc.session.tool_state.tool_calls
    assert first.provider.kind is ProviderKind.BUILTIN
    assert first.result_evidence_ids == [e.evidence_id for e in hits]
    assert second.result_evidence_ids == first.result_evidence_ids
    assert hits[0].links.tool_call_id == first.tool_call_id
    assert [link["tool_call_id"] for link in hits[0].metadata["links"]] == [second.tool_call_id]
    refs = [r.evidence_id for r in doc.session.messages[1].refs or []]
    assert refs == [e.evidence_id for e in hits]


@pytest.mark.req("B-02", "B-04", "A-19")
def test_nothing_unredacted_is_in_the_store(app: HostApp) -> None:
    secret = "mail jane.roe@example.org or call 13800138000"
    prepared = app.prepare(user(secret))
    assert prepared.assembled.parts[-1].content == secret  # the model gets it as it is
    app.commit(prepared, tool_calls(("c", "mail", {"to": "jane.roe@example.org"})))
    app.commit(
        app.prepare(tool_result("c", "sent to jane.roe@example.org"), new_request=False),
        assistant("Sent to jane.roe@example.org."),
    )
    app.engine.sync.record_event(SCOPE, "planner", {"plan": "write to jane.roe@example.org"})
    app.engine.sync.record_evidence(
        SCOPE,
        "call 13800138000",
        EvidenceSource(kind=SourceKind.USER, name="note"),
        EvidenceType.OTHER,
    )
    doc = document(app.engine)
    events = app.engine.loop.run(app.engine.store.list_events(SCOPE))
    everything = doc.model_dump_json() + json.dumps([e.model_dump(mode="json") for e in events])
    assert "jane" not in everything
    assert "13800138000" not in everything
    assert doc.session.messages[0].content == "mail [EMAIL_1] or call [PHONE_1]"
    assert doc.session.messages[2].content == "sent to [EMAIL_1]"


@pytest.mark.req("B-01", "A-20")
def test_the_event_log_is_a_chain_and_tagged_with_the_framework(app: HostApp) -> None:
    app.ask("one?", "1")
    app.ask("two?", "2")
    app.engine.sync.flush()
    events = app.engine.loop.run(app.engine.store.list_events(SCOPE))
    state = app.engine.loop.run(app.engine.store.state(SCOPE))
    assert state is not None
    key = chain_keys(app.engine.store.secret, app.scope.key)
    assert verify_chain(events, state.head.chain_head, key) is None
    assert [e.kind for e in events if e.event_type == "MessageAppended"] == [
        "user_input",
        "final",
    ] * 2
    assert {e.tags["framework"] for e in events} == {"by-hand"}
    assert verify_chain(events[:-1], state.head.chain_head, key) == len(events)
    changed = [e.model_copy() for e in events]
    changed[0].kind = "final"
    assert verify_chain(changed, state.head.chain_head, key) == 1


def test_a_retry_of_a_failed_call_is_another_attempt_of_the_same_turn(app: HostApp) -> None:
    first = app.prepare(user("one?"))
    app.engine.sync.fail(first.turn, "provider_error")
    second = app.prepare(new_request=False)
    assert second.turn.turn_id == first.turn.turn_id
    assert second.report.attempt == 2
    app.commit(second, assistant("1"))
    turns = app.engine.loop.run(app.engine.store.list_turns(SCOPE))
    assert [(t.status, t.attempt, len(t.attempts)) for t in turns] == [(TurnStatus.COMMITTED, 2, 1)]
    assert contents(document(app.engine)) == [("user", "one?"), ("assistant", "1")]


def test_two_calls_with_the_same_question_at_once_are_two_turns(app: HostApp) -> None:
    app.messages.append(user("one?"))
    first, second = app.prepare(), app.prepare(new_request=False)
    assert first.turn.turn_id != second.turn.turn_id
    app.engine.sync.commit(first.turn, answer_of("A"))
    app.engine.sync.commit(second.turn, answer_of("B"))
    doc = document(app.engine)
    assert contents(doc) == [("user", "one?"), ("assistant", "A"), ("assistant", "B")]
    assert doc.session.messages[2].variant_of == doc.session.messages[1].message_id


def answer_of(text: str) -> Answer:
    return Answer(Message(role=Role.ASSISTANT, content=text))


def test_a_commit_twice_is_one(app: HostApp) -> None:
    prepared = app.prepare(user("one?"))
    app.commit(prepared, assistant("1"))
    app.engine.sync.commit(prepared.turn, answer_of("1"))
    assert contents(document(app.engine)) == [("user", "one?"), ("assistant", "1")]


@pytest.mark.req("A-14")
def test_chunks_are_joined_in_order_and_an_abandoned_stream_is_incomplete(app: HostApp) -> None:
    prepared = app.prepare(user("count"))
    for index, text in ((1, "two "), (0, "one "), (2, "three")):
        app.engine.chunk(prepared.turn, index, text)
    app.engine.sync.finalize(prepared.turn, status=TurnStatus.INCOMPLETE)
    stored = document(app.engine).session.messages[-1]
    assert (stored.content, stored.status) == ("one two three", "incomplete")


def test_helper_calls_are_recorded_but_are_no_part_of_the_conversation(app: HostApp) -> None:
    app.ask("one?", "1")
    helper = app.engine.sync.prepare(
        ModelCall(
            scope=SCOPE,
            messages=[user("Summarise: one? 1")],
            purpose="helper",
            request_id="request-1",
        )
    )
    app.engine.sync.commit(helper.turn, answer_of("They counted."), usage=Usage(5, 5, 10))
    doc = document(app.engine)
    assert contents(doc) == [("user", "one?"), ("assistant", "1")]
    assert doc.session.model_usage[-1].stage == "other"
    assert "They counted." in [e.content for e in doc.evidences.values()]


@pytest.mark.req("B-03")
def test_another_users_session_of_the_same_name_is_another_session(
    app: HostApp, engine: ContextEngine
) -> None:
    app.ask("my secret is blue", "Noted.")
    other = Scope(session_id="s", user_id="other", account_id="a")
    prepared = HostApp(engine, other).prepare(user("what is my secret?"))
    assert prepared.unchanged
    assert contents(document(engine, other)) == [("user", "what is my secret?")]
    assert engine.loop.run(engine.store.get_session(Scope(session_id="s"))) is None


@pytest.mark.req("A-21", "E-04")
def test_after_a_restart_a_resent_history_is_recognised(store: Store) -> None:
    app = HostApp(create_context_engine(store, config=PATIENT), SCOPE, [system("You help.")])
    app.ask("one?", "1")
    app.engine.sync.flush()
    again = HostApp(create_context_engine(store, config=PATIENT), SCOPE, [system("You help.")])
    again.messages += [user("one?"), assistant("1")]  # new objects, same words
    prepared = again.ask("two?", "2")
    assert prepared.unchanged
    assert contents(document(again.engine)) == [
        ("user", "one?"),
        ("assistant", "1"),
        ("user", "two?"),
        ("assistant", "2"),
    ]
    app.engine.loop.close()
    again.engine.sync.close()


def test_a_host_without_history_gets_it_back_and_it_is_not_stored_again(
    engine: ContextEngine,
) -> None:
    HostApp(engine, SCOPE).ask("my room is 42", "Noted.")
    prepared = HostApp(engine, SCOPE).prepare(
        system("You help."), user("which room?"), request_id="later"
    )
    assert [p.content for p in prepared.assembled.parts] == [
        "You help.",
        "my room is 42",
        "Noted.",
        "which room?",
    ]
    assert len(document(engine).session.messages) == 3


@pytest.mark.req("D-10")
def test_a_session_of_another_project_is_refused_after_a_restart_too(store: Store) -> None:
    mine, other = Scope(session_id="s", project_id="p1"), Scope(session_id="s", project_id="p2")
    first = create_context_engine(store, config=PATIENT)
    HostApp(first, mine).ask("the code is 7391", "noted")
    first.sync.flush()
    second = create_context_engine(store, config=PATIENT)
    with pytest.raises(ScopeViolationError, match="p1"):
        HostApp(second, other).prepare(user("which code?"))
    assert len(document(second, mine).session.messages) == 2
    first.loop.close()
    second.sync.close()


def test_steps_of_one_invocation_are_no_history_of_each_other(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    app.ask("translate: hi", "hallo", request_id="one")
    second = HostApp(engine, SCOPE)
    assert second.ask("summarise: hallo", "short", request_id="one").unchanged
    later = HostApp(engine, SCOPE).prepare(user("translate: bye"), request_id="two")
    assert later.unchanged, "what one prompt of a chain was asked is no history of another"


@pytest.mark.parametrize("at_once", [True, False])
def test_branches_of_one_invocation_are_no_history(engine: ContextEngine, at_once: bool) -> None:
    joke, poem = HostApp(engine, SCOPE), HostApp(engine, SCOPE)
    first = joke.prepare(user("cats"), request_id="one")
    if not at_once:
        joke.commit(first, assistant("a joke"))
    poem.ask("cats", "a poem", request_id="one")
    if at_once:
        joke.commit(first, assistant("a joke"))
    assert HostApp(engine, SCOPE).prepare(user("dogs"), request_id="two").unchanged


def test_a_retry_of_a_failed_call_is_history(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    engine.sync.fail(app.prepare(user("the code is 7391"), request_id="one").turn, "Timeout")
    HostApp(engine, SCOPE).ask("the code is 7391", "noted", request_id="one")
    later = HostApp(engine, SCOPE).prepare(user("which code?"), request_id="two")
    assert "noted" in [part.content for part in later.assembled.parts]


def test_a_host_that_keeps_its_history_is_brought_none(engine: ContextEngine) -> None:
    HostApp(engine, SCOPE).ask("the code is 7391", "noted", request_id="one")
    call = ModelCall(scope=SCOPE, messages=[user("hi")], request_id="two", restore=False)
    assert engine.sync.prepare(call).unchanged
