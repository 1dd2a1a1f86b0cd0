"""Turns by hand that are refused, cancelled, failed, or go on side by side (A-13)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from ce_engine import (
    CharBasedEstimator,
    ContextEngine,
    EvidenceNotFoundError,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    PrepareResult,
    PutResult,
    Ref,
    Role,
    RuntimeConfig,
    SchemaValidationError,
    Scope,
    SourceKind,
    StoreConfig,
    create_context_engine,
)


SCOPE = Scope(session_id="s1")


@pytest.fixture
async def engine() -> AsyncIterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    await made.close()


def user(text: str) -> Message:
    return Message(role=Role.USER, content=text)


def answer(text: str, **more: object) -> Message:
    return Message.model_validate({"role": "assistant", "content": text, **more})


def said(result: PrepareResult) -> list[tuple[str, str]]:
    return [(str(part.role), part.content) for part in result.assembled_input.parts]


async def stored(engine: ContextEngine) -> list[str]:
    await engine.flush()
    found = await engine.store.get_session(SCOPE)
    assert found is not None
    return [message.content for message in found.session.messages]


@pytest.mark.req("A-13")
async def test_a_call_that_is_refused_leaves_the_open_turn_open(engine: ContextEngine) -> None:
    source = EvidenceSource(kind=SourceKind.RAG, name="kb")
    found = await engine.record_evidence(SCOPE, "It is 42.", source, EvidenceType.RAG_DOC)
    result = await engine.prepare_turn("s1", user("What is it?"))
    with pytest.raises(SchemaValidationError):
        await engine.prepare_turn("s1", Message(role=Role.TOOL, tool_call_id="x", content="?"))
    refs = [Ref(evidence_id=found.evidence_id)]
    put = await engine.commit_assistant_message(
        "s1", answer("42"), refs, turn_id=result.report.turn_id
    )
    assert put.success
    assert await stored(engine) == ["What is it?", "42"]


@pytest.mark.req("A-03", "A-13")
async def test_refs_inside_the_message_must_lead_somewhere_too(engine: ContextEngine) -> None:
    await engine.prepare_turn("s1", user("What is it?"))
    with pytest.raises(EvidenceNotFoundError):
        await engine.commit_assistant_message("s1", answer("42", refs=[{"evidence_id": "none"}]))
    assert (await engine.commit_assistant_message("s1", answer("42"))).success


class Held(MemoryStore):
    """A store that takes nothing in until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.held = False
        self.asked, self.go = threading.Event(), threading.Event()

    async def apply(self, *args: Any, **more: Any) -> PutResult:
        if self.held:
            self.asked.set()
            await asyncio.to_thread(self.go.wait)
        return await super().apply(*args, **more)


@pytest.mark.req("A-13")
async def test_a_caller_that_is_cancelled_leaves_no_turn_open() -> None:
    store = Held()
    config = RuntimeConfig(store=StoreConfig(deadline_s=30))
    estimator = CharBasedEstimator()
    engine = create_context_engine(store, token_estimator=estimator, config=config)
    try:
        await engine.prepare_turn("s1", user("one"))
        await engine.commit_assistant_message("s1", answer("first"))
        store.held = True
        task = asyncio.create_task(engine.prepare_turn("s1", user("two")))
        await asyncio.to_thread(store.asked.wait)
        for _ in range(20):  # it waits for the store now
            await anyio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.go.set()
        await engine.flush()
        await engine.prepare_turn("s1", user("three"))
        assert (await engine.commit_assistant_message("s1", answer("third"))).success
    finally:
        store.go.set()
        await engine.close()


@pytest.mark.req("A-13")
async def test_results_go_to_the_agent_that_asked_whatever_the_ids(engine: ContextEngine) -> None:
    agents = [Scope(session_id="s1", agent_id=name) for name in ("anna", "ben")]
    asks = answer("", tool_calls=[{"id": "call_0", "name": "f", "args": {}}])
    for agent in agents:
        turn = await engine.prepare_turn(agent, user(f"Question of {agent.agent_id}"))
        await engine.commit_assistant_message(agent, asks, turn_id=turn.report.turn_id)
    for agent in agents:
        name = agent.agent_id
        result = Message(role=Role.TOOL, tool_call_id="call_0", content=f"Result of {name}")
        assert said(await engine.prepare_turn(agent, result)) == [
            ("user", f"Question of {name}"),
            ("assistant", ""),
            ("tool", f"Result of {name}"),
        ]
    stray = Message(role=Role.TOOL, tool_call_id="call_0", content="of nobody")
    with pytest.raises(SchemaValidationError, match="call_0"):
        await engine.prepare_turn(SCOPE, stray)  # this lane did not ask


@pytest.mark.req("A-13", "A-14")
async def test_a_question_is_stored_once_though_its_stream_broke_off(engine: ContextEngine) -> None:
    for _ in range(3):
        await engine.prepare_turn("s1", user("What is it?"))
        await engine.commit_assistant_chunk("s1", "It i", 0)
        await engine.fail_turn("s1", "timeout")
    again = await engine.prepare_turn("s1", user("What is it?"))
    assert said(again) == [("user", "What is it?")]
    await engine.commit_assistant_message("s1", answer("It is 42."))
    assert (await stored(engine)).count("What is it?") == 1
    assert said(await engine.prepare_turn("s1", user("Sure?"))) == [
        ("user", "What is it?"),
        ("assistant", "It is 42."),
        ("user", "Sure?"),
    ]


@pytest.mark.req("A-13")
async def test_results_of_one_answer_come_together(engine: ContextEngine) -> None:
    await engine.prepare_turn("s1", user("Both?"))
    calls = [{"id": f"call_{n}", "name": "f", "args": {}} for n in (0, 1)]
    await engine.commit_assistant_message("s1", answer("", tool_calls=calls))
    results = [
        Message(role=Role.TOOL, tool_call_id=f"call_{n}", content=f"result {n}") for n in (0, 1)
    ]
    with pytest.raises(SchemaValidationError, match="call_1"):
        await engine.prepare_turn("s1", results[0])
    step = await engine.prepare_turn("s1", results)
    assert [role for role, _ in said(step)] == ["user", "assistant", "tool", "tool"]


@pytest.mark.req("A-09", "B-16")
async def test_what_two_agents_find_is_told_to_both_and_to_no_third(engine: ContextEngine) -> None:
    source = EvidenceSource(kind=SourceKind.RAG, name="kb")
    anna, ben, cleo = (Scope(session_id="s1", agent_id=name) for name in ("anna", "ben", "cleo"))
    for agent in (anna, ben, ben):
        await engine.ingest(agent, "The shop opens at 9.", source, EvidenceType.RAG_DOC)
    assert len(await engine.store.list_evidences(anna)) == 2, "one for each lane"
    for agent, knows in ((anna, True), (ben, True), (cleo, False)):
        turn = await engine.prepare_turn(agent, user("When does it open?"))
        assert ("opens at 9" in str(said(turn))) is knows
        await engine.fail_turn(agent, "not_sent", turn_id=turn.report.turn_id)
