"""Teams by hand: who calls, and what agents of one session are told of each other (B-16, E-05)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ce_engine import (
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    Message,
    PrepareResult,
    Role,
    RuntimeConfig,
    Scope,
    ToolRequest,
    create_context_engine,
)


RESULTS = RuntimeConfig(colleagues="results")


def agent(name: str) -> Scope:
    return Scope(session_id="s", user_id="u", agent_id=name)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


def asked(
    engine: ContextEngine, scope: Scope, text: str, config: RuntimeConfig | None = None
) -> PrepareResult:
    return engine.sync.prepare_turn(scope, Message(role=Role.USER, content=text), config)


def answered(engine: ContextEngine, scope: Scope, text: str) -> None:
    answer = Message(role=Role.ASSISTANT, content=text)
    assert engine.sync.commit_assistant_message(scope, answer).success


def sent(turn: PrepareResult) -> str:
    return "\n".join(part.content for part in turn.assembled_input.parts)


def work(engine: ContextEngine) -> None:
    """Ann asks a tool on the way to her answer; Ben fails."""
    ann, ben = agent("ann"), agent("ben")
    asked(engine, ann, "Find the harbour's depth.")
    call = Message(
        role=Role.ASSISTANT,
        content="I look it up first.",
        tool_calls=[ToolRequest(id="c1", name="depth", args={})],
    )
    engine.sync.commit_assistant_message(ann, call)
    result = Message(role=Role.TOOL, tool_call_id="c1", content="raw: 1234 cm")
    engine.sync.prepare_turn(ann, result)
    answered(engine, ann, "港口水深 12 米。")
    asked(engine, ben, "Find the tide.")
    engine.sync.fail_turn(ben, "timeout")


@pytest.mark.req("B-16")
def test_agents_of_a_session_share_their_final_results_alone(engine: ContextEngine) -> None:
    work(engine)
    turn = asked(engine, agent("cleo"), "Can the ship enter?", RESULTS)
    text = sent(turn)
    assert "ann: 港口水深 12 米。" in text
    for hidden in ("1234 cm", "I look it up first", "Find the harbour", "Find the tide"):
        assert hidden not in text
    assert turn.assembled_input.parts[-1].role is Role.USER
    assert not [p for p in turn.assembled_input.parts if p.role is Role.SYSTEM]
    answered(engine, agent("cleo"), "Yes.")
    document = engine.sync.get_session(agent("cleo"))
    assert document is not None
    [refs] = [m.refs for m in document.session.messages if m.content == "Yes."]
    found = {e.evidence_id: e.content for e in engine.sync.list_evidences(agent("cleo"))}
    assert "港口水深 12 米。" in [found.get(ref.evidence_id) for ref in refs or ()]


@pytest.mark.req("B-16")
def test_by_default_they_are_apart(engine: ContextEngine) -> None:
    work(engine)
    assert sent(asked(engine, agent("cleo"), "Can the ship enter?")) == "Can the ship enter?"


@pytest.mark.req("B-16")
def test_the_newest_result_of_each_other_agent_and_none_of_ones_own(engine: ContextEngine) -> None:
    for text in ("first result", "second result"):
        asked(engine, agent("ann"), "Go on.")
        answered(engine, agent("ann"), text)
    text = sent(asked(engine, agent("ann"), "And now?", RESULTS))
    assert "ann: " not in text
    text = sent(asked(engine, agent("ben"), "And now?", RESULTS))
    assert "ann: second result" in text
    assert "first result" not in text
    stranger = Scope(session_id="s", user_id="another", agent_id="eve")
    assert sent(asked(engine, stranger, "What was found?", RESULTS)) == "What was found?"


@pytest.mark.req("E-05")
@pytest.mark.parametrize("role", ["worker", "planner", "reducer"])
def test_a_caller_of_map_reduce_has_no_history_by_hand(engine: ContextEngine, role: str) -> None:
    scope = agent("")
    asked(engine, scope, "My name is 王芳.")
    answered(engine, scope, "Hello 王芳.")
    question = Message(role=Role.USER, content="What is my name?")
    turn = engine.sync.prepare_turn(scope, question, role=role)  # type: ignore[arg-type] # of the test
    assert sent(turn) == "What is my name?"
    engine.sync.fail_turn(scope, "not_sent")
    assert "王芳" in sent(engine.sync.prepare_turn(scope, question))
