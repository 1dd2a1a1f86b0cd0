"""A question by hand whose answer needs tools: what was brought in for it goes out in each of its calls."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    PrepareResult,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    ToolRequest,
    create_context_engine,
)


SCOPE = Scope(session_id="shop")
CONFIG = RuntimeConfig(budget=BudgetConfig(max_input_tokens=1500))
WALK = "What should we do about the {0} this week, and who could take it over while Jonas is away?"


@pytest.fixture
async def engine() -> AsyncIterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    await made.close()


async def step(
    engine: ContextEngine, new: Message, answer: str, call: str | None = None
) -> PrepareResult:
    """One call of the model, which answers or asks for the stock of something."""
    made = await engine.prepare_turn(SCOPE, new, CONFIG)
    calls = [ToolRequest(id=call, name="stock", args={"item": call})] if call else None
    said = Message(role=Role.ASSISTANT, content="" if call else answer, tool_calls=calls)
    await engine.commit_assistant_message(SCOPE, said, turn_id=made.report.turn_id)
    return made


async def ask(
    engine: ContextEngine, question: str, answer: str = "Noted.", item: str = ""
) -> list[PrepareResult]:
    """A question, with a call of a tool for an item in between."""
    new = Message(role=Role.USER, content=question)
    if not item:
        return [await step(engine, new, answer)]
    first = await step(engine, new, "", call=item)
    result = Message(role=Role.TOOL, tool_call_id=item, content=f'{{"item": "{item}", "n": 4}}')
    return [first, await step(engine, result, answer)]


async def tell(engine: ContextEngine, text: str, name: str = "handbook") -> str:
    source = EvidenceSource(kind=SourceKind.RAG, name=name)
    made = await engine.record_evidence(SCOPE, text, source, EvidenceType.RAG_DOC)
    return made.evidence_id


def text_of(made: PrepareResult) -> str:
    return "\n".join(part.content for part in made.assembled_input.parts)


async def until_cut(engine: ContextEngine) -> None:
    """A talk that used a tool and was cut."""
    await ask(engine, "How many lamps do we have?", "Four.", item="lamp")
    for n in range(40):
        [made] = await ask(engine, WALK.format(f"sale number {n}"), f"For sale {n} ask Lena. " * 8)
        if made.report.cut == "moved":
            return
    raise AssertionError("it was never cut")


async def until_cut_for_a_question(engine: ContextEngine) -> list[PrepareResult]:
    """The calls of the first question with a tool for which the cut moved."""
    for n in range(60):
        said = f"For sale {n} ask Lena. " * 8
        made = await ask(engine, WALK.format(f"sale number {n}"), said, item=f"lamp {n}")
        if made[0].report.cut == "moved":
            return made
    raise AssertionError("it was never cut for a question")


async def test_what_was_brought_in_for_a_question_goes_out_in_its_tool_step_too(
    engine: ContextEngine,
) -> None:
    await until_cut(engine)
    await tell(engine, "A restocking fee of six percent is kept for upholstered chairs.")
    first, second = await ask(engine, "What fee is kept for chairs?", "Six.", item="chair")
    assert "restocking fee" in text_of(first)
    assert "restocking fee" in text_of(second)
    assert first.report.cut == second.report.cut == "stands"
    assert second.report.recall is not None
    assert second.report.recall.state == "chosen_before"
    assert (await engine.replay(SCOPE)).equal


@pytest.mark.parametrize("learns", [False, True])
async def test_another_process_takes_a_tool_step_as_the_same_one_would(
    engine: ContextEngine, *, learns: bool
) -> None:
    await until_cut(engine)
    await tell(engine, "A restocking fee of six percent is kept for upholstered chairs.")
    new = Message(role=Role.USER, content="What fee is kept for chairs?")
    first = await step(engine, new, "", call="chair")
    if learns:
        await tell(engine, "Garden chairs: a fee of nine percent is kept.")
    assert await engine.flush()
    other = create_context_engine(engine.store, CharBasedEstimator())
    result = Message(role=Role.TOOL, tool_call_id="chair", content="see the handbook")
    second = await step(other, result, "Six.")
    assert "restocking fee" in text_of(first)
    assert "restocking fee" in text_of(second)
    assert second.report.recall is not None
    assert (second.report.recall.state == "chosen_before") is not learns
    await other.close()


async def test_behind_a_cut_what_was_learned_since_the_question_goes_in_too_or_is_told_of(
    engine: ContextEngine,
) -> None:
    await until_cut(engine)
    await tell(engine, "A restocking fee of six percent is kept for upholstered chairs.")
    new = Message(role=Role.USER, content="What fee is kept for chairs?")
    first = await step(engine, new, "", call="chair")
    later = await tell(engine, "Garden chairs: nine percent.")
    result = Message(role=Role.TOOL, tool_call_id="chair", content="see the handbook")
    second = await step(engine, result, "Six; for garden chairs nine.")
    assert first.report.cut == second.report.cut == "stands"
    assert "restocking fee" in text_of(first)
    assert "restocking fee" in text_of(second)
    told = {d.block_id: d.action for d in second.report.prune_decisions}
    went = "nine percent" in text_of(second)
    assert told[f"e:{later}"] == ("kept" if went else "dropped")
    assert (await engine.replay(SCOPE)).equal


async def test_a_cut_that_moves_for_a_question_does_not_take_from_its_tool_step(
    engine: ContextEngine,
) -> None:
    await tell(engine, "The shop opens at nine.")
    await ask(engine, "How many lamps do we have?", "Four.", item="lamp")
    first, second = await until_cut_for_a_question(engine)
    brought = first.report.quoted_message_ids
    assert len(brought) > 2
    *_, question = (p for p in first.assembled_input.parts if p.role is Role.USER)
    assert question.content in [part.content for part in second.assembled_input.parts]


async def test_with_room_for_all_what_was_learned_since_the_question_goes_in(
    engine: ContextEngine,
) -> None:
    await tell(engine, "The shop opens at nine.")
    new = Message(role=Role.USER, content="When does the shop open, and when is it closed?")
    await step(engine, new, "", call="hours")
    await tell(engine, "The shop is closed on Mondays.")
    result = Message(role=Role.TOOL, tool_call_id="hours", content="see the handbook")
    made = await step(engine, result, "At nine; on Mondays.")
    assert "opens at nine" in text_of(made)
    assert "closed on Mondays" in text_of(made)
