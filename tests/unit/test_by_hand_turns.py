"""Turns by hand that are refused, cancelled, failed, or go on side by side (A-13)."""

from __future__ import annotations

from collections.abc import AsyncIterator

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
    Ref,
    Role,
    SchemaValidationError,
    Scope,
    SourceKind,
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
