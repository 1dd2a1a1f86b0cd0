"""Whatever is to go in: the input is within the budget, and the report's numbers add up to it (A-13, A-17, D-02)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ce_engine import (
    BlockType,
    BudgetConfig,
    CharBasedEstimator,
    ContextBlock,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    MessagePart,
    PrepareResult,
    Priority,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    Task,
    ToolRequest,
    create_context_engine,
)
from ce_engine.text.tokens.call_tokens import PRIMING, Counter


SCOPE = Scope(session_id="s")
SLACK = 120  # what the bounds of framing, headings and joins may be above a recount
SYSTEM = Message(role=Role.SYSTEM, content="You help.")
WORDS = ["Order 17 is paid. ", "北区仓库的负责人是王小明。", '{"a": 1, "b": [2, 3]}', "x@y.com "]
LESS = [Priority.HIGH, Priority.MEDIUM, Priority.LOW]

texts = st.builds(str.__mul__, st.sampled_from(WORDS), st.sampled_from([1, 3, 10, 40]))
turns = st.fixed_dictionaries({"said": texts, "answer": texts, "steps": st.sampled_from([0, 0, 2])})
sessions = st.fixed_dictionaries(
    {
        "budget": st.sampled_from([120, 250, 500, 1000, 3000]),
        "placement": st.sampled_from(["seed", "cache"]),
        "enable_share_context": st.sampled_from([True, True, False]),
        "locale": st.sampled_from(["en", "zh"]),
        "tasks": st.lists(texts, max_size=4),
        "blocks": st.lists(
            st.tuples(st.sampled_from(list(BlockType)), st.sampled_from(LESS), texts), max_size=5
        ),
        "facts": st.lists(texts, max_size=5),
        "turns": st.lists(turns, min_size=1, max_size=3),
    }
)


LIVE = {
    "budget": 250,
    "placement": "cache",
    "enable_share_context": True,
    "locale": "en",
    "tasks": [],
    "blocks": [],
    "facts": [WORDS[0]],
    "turns": [{"said": said, "answer": WORDS[0], "steps": 0} for said in (WORDS[3], WORDS[0])],
}
"""What was redacted stands in the history that is brought in, and goes out as it was said."""


def made(session: dict[str, Any]) -> ContextEngine:
    config = RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=session["budget"]),
        placement=session["placement"],
        enable_share_context=session["enable_share_context"],
        locale=session["locale"],
    )
    return create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator(), config=config)


async def fill(engine: ContextEngine, session: dict[str, Any]) -> None:
    tasks = [Task(task_id=str(n), name=text) for n, text in enumerate(session["tasks"])]
    await engine.upsert_tasks(SCOPE, tasks)
    blocks = [
        ContextBlock(
            block_id=f"b{n}", block_type=kind, priority=priority, content=text, token_estimate=0
        )
        for n, (kind, priority, text) in enumerate(session["blocks"])
    ]
    await engine.put_context_blocks(SCOPE, blocks)
    for n, text in enumerate(session["facts"]):
        source = EvidenceSource(kind=SourceKind.RAG, name=f"kb{n}")
        await engine.record_evidence(SCOPE, text, source, EvidenceType.RAG_DOC)


async def talk(session: dict[str, Any]) -> None:
    engine = made(session)
    try:
        await fill(engine, session)
        for turn in session["turns"]:
            new = [Message(role=Role.USER, content=turn["said"])]
            for step in range(turn["steps"]):
                check(await engine.prepare_turn(SCOPE, [SYSTEM, *new]))
                calls = [ToolRequest(id=f"call_{k}", name="f", args={"step": step}) for k in (0, 1)]
                asks = Message(role=Role.ASSISTANT, content="", tool_calls=calls)
                await engine.commit_assistant_message(SCOPE, asks)
                new = [
                    Message(role=Role.TOOL, tool_call_id=call.id, content=turn["answer"])
                    for call in calls
                ]
            check(await engine.prepare_turn(SCOPE, [SYSTEM, *new]))
            answer = Message(role=Role.ASSISTANT, content=turn["answer"])
            await engine.commit_assistant_message(SCOPE, answer)
    finally:
        await engine.close()


def tokens(parts: Sequence[MessagePart]) -> int:
    counter = Counter(CharBasedEstimator(), None)
    return PRIMING + sum(
        counter.message(Message.model_validate(part.model_dump(exclude_none=True)))
        for part in parts
    )


def never_out(parts: Sequence[MessagePart]) -> list[MessagePart]:
    """The system prompt as it was given, the question, and the last group of tools."""
    task = max(n for n, part in enumerate(parts) if part.role is Role.USER)
    group = max((n for n, part in enumerate(parts) if part.tool_calls), default=len(parts))
    kept = [part for n, part in enumerate(parts) if n == task or n >= max(task, group)]
    return [MessagePart(role=Role.SYSTEM, content=SYSTEM.content), *kept]


def check(result: PrepareResult) -> None:
    parts, report = result.assembled_input.parts, result.report
    used, budget = report.token_used, report.token_budget
    assert budget is not None
    # The estimator looks at a text as a whole: one that is joined may count a little more than its parts.
    assert tokens(parts) <= 1.1 * used
    assert used <= tokens(parts) + SLACK
    assert report.over_budget == (used > budget)
    if report.over_budget:
        assert tokens(never_out(parts)) + SLACK // 10 > budget
    assert sum(report.payload_tokens.values()) == used
    layers = sum(layer.tokens for layer in report.layers.values())
    # Layers are counted one by one, and what stands around them by an upper bound for each place.
    assert abs(layers + PRIMING - used) <= SLACK // 4
    asked = [call.id for part in parts for call in part.tool_calls or ()]
    assert asked == [part.tool_call_id for part in parts if part.tool_call_id]


@pytest.mark.req("A-13", "A-17", "D-02")
@settings(max_examples=60)
@given(sessions)
@example(LIVE)
def test_the_input_is_within_the_budget_and_the_numbers_add_up(session: dict[str, Any]) -> None:
    anyio.run(talk, session)
