"""A run that fails asks for a person, and can be handed over or resumed (B-06)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ce_engine import (
    ContextEngine,
    HandoverConfig,
    MemoryStore,
    RuntimeConfig,
    Scope,
    ScopeViolationError,
    SessionNotFoundError,
    ToolCallStatus,
    ToolRun,
    TurnNotFoundError,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="li")
PHONE = "13812345678"


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def asked_for(engine: ContextEngine) -> list[dict[str, object]]:
    """What the session's log asks a person for."""
    return [e.payload for e in engine.sync.list_events(SCOPE) if e.kind == "hitl"]


def fail(app: HostApp, code: str = "RATE_LIMIT") -> None:
    prepared = app.prepare(new_request=False)
    app.engine.sync.fail(prepared.turn, code)


@pytest.mark.req("B-06")
def test_a_person_is_asked_for_once_when_a_model_fails_again_and_again(
    engine: ContextEngine,
) -> None:
    app = HostApp(engine, SCOPE, [user("Where is my parcel?")])
    for failures in range(1, 5):
        fail(app)
        assert len(asked_for(engine)) == int(failures >= 3)
    assert asked_for(engine) == [{"trigger": "model_call", "name": "", "failures": 3}]


@pytest.mark.req("B-06")
def test_a_success_in_between_begins_the_count_anew(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [user("Where is my parcel?")])
    for _ in range(2):
        fail(app)
        fail(app)
        app.ask("And now?", "On its way.")
    assert asked_for(engine) == []


@pytest.mark.req("B-06")
def test_a_tool_that_fails_again_and_again_asks_too(engine: ContextEngine) -> None:
    for status in (
        *[ToolCallStatus.ERROR] * 2,
        ToolCallStatus.SUCCESS,
        *[ToolCallStatus.TIMEOUT] * 4,
    ):
        engine.sync.record_tool_run(SCOPE, ToolRun("pay", {"to": "A"}, "", status=status))
        engine.sync.record_tool_run(SCOPE, ToolRun("look", {}, "fine"))
    assert asked_for(engine) == [{"trigger": "tool_run", "name": "pay", "failures": 3}]


@pytest.mark.req("B-06")
def test_the_rules_are_the_owners() -> None:
    rules = HandoverConfig(
        model_failures=None,
        tool_failures=1,
        on_codes=frozenset({"CONTENT_FILTER", "RateLimitError", "rpc"}),
    )
    engine = create_context_engine(MemoryStore(), config=RuntimeConfig(handover=rules))
    app = HostApp(engine, SCOPE, [user("Where is my parcel?")])
    for _ in range(4):
        fail(app)
    assert asked_for(engine) == []
    fail(app, "CONTENT_FILTER")
    fail(app, "RateLimitError:429")
    fail(app, "rpc:Unavailable")  # an app's own code, of which nothing is a status
    engine.sync.record_tool_run(SCOPE, ToolRun("pay", {}, "", status=ToolCallStatus.ERROR))
    assert asked_for(engine) == [
        {"trigger": "code", "codes": ["CONTENT_FILTER"]},
        {"trigger": "code", "codes": ["RateLimitError"]},
        {"trigger": "tool_run", "name": "pay", "failures": 1},
    ]
    engine.sync.close()


def stuck(engine: ContextEngine) -> HostApp:
    """A run that paid, and whose mail nobody knows of; then the model failed."""
    app = HostApp(engine, SCOPE)
    app.ask("Hello", "Hello!")
    prepared = app.prepare(user(f"Pay the invoice, and mail {PHONE}."))
    app.commit(
        prepared,
        tool_calls(("call_0", "pay", {"phone": PHONE}), ("call_1", "mail", {"text": "paid"})),
    )
    app.messages.append(tool_result("call_0", f"paid by {PHONE}"))
    for _ in range(3):
        fail(app)
    return app


@pytest.mark.req("B-06")
def test_the_package_says_what_was_done_and_what_may_have_been(engine: ContextEngine) -> None:
    stuck(engine)
    package = engine.sync.handover(SCOPE)
    assert package.asked == "Pay the invoice, and mail [PHONE_1]."
    assert [(s.kind, s.name, s.status) for s in package.steps] == [
        ("model_call", "chat", "done"),
        ("tool_run", "pay", "done"),
        ("tool_run", "mail", "open"),
        ("model_call", "chat", "failed"),
    ]
    assert package.steps[-1].errors == ["RATE_LIMIT"]
    assert package.steps[-1].attempts == 3
    assert [each["trigger"] for each in package.triggers] == ["model_call"]
    assert PHONE not in package.model_dump_json()


@pytest.mark.req("B-06", "B-07")
def test_a_host_that_resumes_finds_what_must_not_be_done_again(engine: ContextEngine) -> None:
    stuck(engine)
    package = engine.sync.handover(SCOPE)
    paid, mailed = package.step_of("call_0"), package.step_of("call_1")
    assert paid is not None
    assert paid.status == "done"
    (evidence_id,) = paid.evidence_ids
    evidence = engine.sync.get_evidence(SCOPE, evidence_id)
    assert evidence is not None
    assert evidence.content == "paid by [PHONE_1]"
    assert mailed is not None
    assert mailed.status == "open"
    assert package.step_of("call_9") is None


@pytest.mark.req("B-06", "A-21")
def test_the_input_is_made_again_as_it_was_sent(engine: ContextEngine) -> None:
    stuck(engine)
    package = engine.sync.handover(SCOPE)
    again = engine.sync.replay(SCOPE, package.turn)
    assert again.equal
    assert again.hash == package.input_hash
    assert again.turn_id == package.turn_id


def test_a_checkpoint_tells_whether_the_session_went_on(engine: ContextEngine) -> None:
    app = stuck(engine)
    before = engine.sync.handover(SCOPE)
    assert engine.sync.handover(SCOPE).checkpoint == before.checkpoint
    fail(app)
    assert engine.sync.handover(SCOPE).checkpoint != before.checkpoint


def test_a_run_that_goes_on_is_not_one_of_another_request(engine: ContextEngine) -> None:
    stuck(engine)
    first = engine.sync.handover(SCOPE, 1)
    assert (first.asked, [s.status for s in first.steps]) == ("Hello", ["done"])
    with pytest.raises(TurnNotFoundError):
        engine.sync.handover(SCOPE, 9)


@pytest.mark.req("B-03", "D-10")
def test_nobody_elses_run_is_handed_over(engine: ContextEngine) -> None:
    stuck(engine)
    with pytest.raises(SessionNotFoundError):
        engine.sync.handover(Scope(session_id="s", user_id="wang"))
    with pytest.raises(ScopeViolationError):
        engine.sync.handover(Scope(session_id="s", user_id="li", project_id="other"))
    engine.sync.delete_session(SCOPE)
    with pytest.raises(SessionNotFoundError):
        engine.sync.handover(SCOPE)
