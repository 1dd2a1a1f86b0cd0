"""An event's payload is small: what is larger stands beside the log, and the event refers to it (B-02)."""

from __future__ import annotations

import json

import pytest

from ce_engine import (
    CharBasedEstimator,
    ContextEngine,
    Message,
    Role,
    create_context_engine,
)
from ce_engine.turns.record.tool_runs import MAX_PAYLOAD_CHARS


@pytest.fixture(params=["memory://", "file:sessions", "sqlite:///ce.db"])
def engine(request: pytest.FixtureRequest) -> ContextEngine:
    return create_context_engine(request.param, token_estimator=CharBasedEstimator())


@pytest.mark.req("B-02", "B-01")
@pytest.mark.parametrize("size", [MAX_PAYLOAD_CHARS, 250_000])
async def test_a_large_payload_is_a_digest_and_a_reference(
    engine: ContextEngine, size: int
) -> None:
    seen = {"seen": "扫描 ocr " * (size // 7 + 1), "mail": "bob@example.com", "pages": [1, 2]}
    await engine.record_event("s", "planner", seen)
    await engine.record_event("s", "planner", seen)
    await engine.record_event("s", "planner", {**seen, "pages": [3]})
    first, again, other = [e.payload for e in await engine.list_events("s") if e.kind == "planner"]
    assert first == again
    assert first.keys() == {"chars", "digest", "evidence_id"}
    assert first["digest"] != other["digest"]
    for event in await engine.list_events("s"):
        assert len(event.model_dump_json()) < MAX_PAYLOAD_CHARS
    whole = await engine.get_evidence("s", first["evidence_id"])
    assert whole is not None
    assert len(whole.content) == first["chars"] > size
    stored = json.loads(whole.content)
    assert (stored["seen"], stored["mail"], stored["pages"]) == (seen["seen"], "[EMAIL_1]", [1, 2])
    assert (await engine.verify("s")).status == "intact"
    await engine.close()


@pytest.mark.req("B-02")
async def test_a_small_one_stays_as_it_is(engine: ContextEngine) -> None:
    await engine.record_event("s", "planner", {"step": "计划 " * 100, "n": 1})
    [event] = [e for e in await engine.list_events("s") if e.kind == "planner"]
    assert event.payload == {"step": "计划 " * 100, "n": 1}
    assert await engine.list_evidences("s") == []
    await engine.close()


@pytest.mark.req("B-02", "D-07")
async def test_no_prompt_is_given_it(engine: ContextEngine) -> None:
    await engine.record_event("s", "planner", {"seen": "The gate code is 7391. " * 1000})
    for question in ("What is the gate code?", "And again, the gate code?"):
        result = await engine.prepare_turn("s", Message(role=Role.USER, content=question))
        assert "7391" not in str(result.assembled_input.parts)
        answer = Message(role=Role.ASSISTANT, content="I do not know.")
        await engine.commit_assistant_message("s", answer)
    await engine.close()
