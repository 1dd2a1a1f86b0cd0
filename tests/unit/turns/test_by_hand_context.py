"""What a session keeps goes into its next input: tasks, blocks, facts that disagree (A-10, A-12, A-18, A-25)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ce_engine import (
    BlockType,
    BudgetConfig,
    CharBasedEstimator,
    ContextBlock,
    ContextEngine,
    EventType,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    PrepareResult,
    Priority,
    Ref,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    Task,
    TaskStatus,
    create_context_engine,
)


SCOPE = Scope(session_id="s1")


@pytest.fixture
async def engine() -> AsyncIterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    await made.close()


async def ask(
    engine: ContextEngine, text: str, config: RuntimeConfig | None = None
) -> PrepareResult:
    result = await engine.prepare_turn(SCOPE, Message(role=Role.USER, content=text), config)
    await engine.fail_turn(SCOPE, "not_sent", turn_id=result.report.turn_id)
    return result


def context(result: PrepareResult) -> str:
    """What the engine put in: rules in the system's part, the rest before the question."""
    *before, question = result.assembled_input.parts
    return "\n".join([*(part.content for part in before), question.content.rpartition("\n\n")[0]])


def block(name: str, kind: BlockType, content: str = "", **more: object) -> ContextBlock:
    return ContextBlock.model_validate(
        {"block_id": name, "block_type": kind, "priority": "high", "content": content, **more}
    )


async def fact(engine: ContextEngine, kind: SourceKind, name: str, text: str) -> str:
    found = await engine.ingest(
        SCOPE, text, EvidenceSource(kind=kind, name=name), EvidenceType.OTHER
    )
    return found.evidence_id


@pytest.mark.req("A-10", "E-03")
async def test_blocks_stand_in_the_order_of_their_layers(engine: ContextEngine) -> None:
    await engine.put_context_blocks(
        SCOPE,
        [
            block("b-state", BlockType.STATE, "Step 2 of 3."),
            block("b-memory", BlockType.MEMORY, "Prefers short answers."),
            block("b-rule", BlockType.INSTRUCTION, "Answer in English."),
        ],
    )
    await fact(engine, SourceKind.RAG, "kb", "The shop opens at 9.")
    result = await ask(engine, "When does the shop open?")
    text = context(result)
    order = ["Answer in English.", "Prefers short answers.", "The shop opens at 9.", "Step 2 of 3."]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    layers = result.report.layers
    assert all(layers[name].tokens > 0 for name in ("rules", "settings", "retrieved", "immediate"))
    assert result.report.token_used == result.assembled_input.total_tokens


@pytest.mark.req("A-10")
async def test_tasks_are_told_with_their_state(engine: ContextEngine) -> None:
    await engine.upsert_tasks(
        SCOPE,
        [
            Task(task_id="t1", name="查订单", status=TaskStatus.COMPLETED),
            Task(task_id="t2", name="退款", depends_on=["t1"]),
        ],
    )
    text = context(await ask(engine, "下一步？", RuntimeConfig(locale="zh")))
    assert "查订单" in text
    assert "退款" in text


@pytest.mark.req("A-12")
async def test_a_block_of_refs_shows_the_part_that_its_selector_names(
    engine: ContextEngine,
) -> None:
    evidence = await fact(engine, SourceKind.TOOL, "log", "one\ntwo\nthree")
    ref = Ref(evidence_id=evidence, selector="lines:2-2")
    await engine.put_context_blocks(SCOPE, [block("b", BlockType.INSTRUCTION, refs=[ref])])
    rules = context(await ask(engine, "?")).partition("|# From earlier")[0]
    assert "| two" in rules
    assert "three" not in rules


@pytest.mark.req("A-25", "A-02")
@pytest.mark.parametrize(
    ("selector", "missing", "code", "reason"),
    [
        ("lines:90-99", False, "CONTEXT_SELECTOR_UNRESOLVED", "selector_resolve_failed"),
        (None, True, "CONTEXT_EVIDENCE_NOT_FOUND", "evidence_not_found"),
    ],
)
async def test_a_ref_that_leads_nowhere_is_told_and_the_blocks_own_text_goes_out(
    engine: ContextEngine, selector: str | None, missing: bool, code: str, reason: str
) -> None:
    evidence = await fact(engine, SourceKind.TOOL, "log", "one\ntwo")
    ref = Ref(evidence_id="gone" if missing else evidence, selector=selector)
    own = block("b", BlockType.INSTRUCTION, "the block's own text", refs=[ref])
    await engine.put_context_blocks(SCOPE, [own])
    result = await ask(engine, "?")
    assert "the block's own text" in context(result)
    assert code in result.report.degradations
    await engine.flush()
    events = await engine.store.list_events(SCOPE)
    told = [e.payload for e in events if e.event_type == EventType.DEGRADED]
    assert {"code": code, "reason": reason, "of": "b"} in told


@pytest.mark.req("A-18")
@pytest.mark.parametrize(
    ("strategy", "stays"),
    [
        ("keep_both_and_warn", {"paid", "open"}),
        ("prefer_tool_over_rag", {"paid"}),
    ],
)
async def test_facts_that_disagree_are_settled_or_told(
    engine: ContextEngine, strategy: str, stays: set[str]
) -> None:
    tool = await fact(engine, SourceKind.TOOL, "orders", '{"id": 7, "status": "paid"}')
    wiki = await fact(engine, SourceKind.RAG, "wiki", '{"id": 7, "status": "open"}')
    result = await ask(
        engine, "status of 7?", RuntimeConfig.model_validate({"conflicts": strategy})
    )
    text = context(result)
    assert {word for word in ("paid", "open") if f'"status": "{word}"' in text} == stays
    [record] = result.report.conflicts
    assert set(record.evidence_ids) == {tool, wiki}
    assert ("Sources disagree" in text) == (len(stays) == 2)
    assert ("CONTEXT_EVIDENCE_CONFLICT" in result.report.warnings) == (len(stays) == 2)


@pytest.mark.req("D-01", "D-02")
async def test_within_a_small_budget_settings_go_before_rules(engine: ContextEngine) -> None:
    rules = [
        block(f"r{n}", BlockType.INSTRUCTION, f"rule {n} " + "must hold " * 5, priority="must")
        for n in range(3)
    ]
    settings = [
        block(f"m{n}", BlockType.MEMORY, f"setting {n} " + "likes it " * 20) for n in range(30)
    ]
    await engine.put_context_blocks(SCOPE, [*rules, *settings])
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=600, reserved_reply_tokens=0))
    result = await ask(engine, "hello", config)
    text = context(result)
    assert all(f"rule {n} " in text for n in range(3))
    assert not all(f"setting {n} " in text for n in range(30))
    assert result.assembled_input.total_tokens <= 600
    assert result.report.layers["settings"].truncated
    dropped = {d.block_id for d in result.report.prune_decisions if d.action == "dropped"}
    assert dropped <= {f"m{n}" for n in range(30)}
    assert dropped


@pytest.mark.req("D-02")
async def test_rules_over_their_share_are_told(engine: ContextEngine) -> None:
    rules = [block(f"r{n}", BlockType.INSTRUCTION, "rule " * 40, priority="must") for n in range(9)]
    low = block("low", BlockType.INSTRUCTION, "a derived rule " * 10, priority=Priority.LOW)
    await engine.put_context_blocks(SCOPE, [low, *rules])
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=700, reserved_reply_tokens=0))
    result = await ask(engine, "hello " * 250, config)
    assert "CONTEXT_RULES_OVERBUDGET" in result.report.warnings
    assert "a derived rule" not in context(result)


@pytest.mark.req("D-05")
async def test_the_stable_prefix_changes_with_rules_and_settings_only(
    engine: ContextEngine,
) -> None:
    await engine.put_context_blocks(SCOPE, [block("r", BlockType.INSTRUCTION, "Be brief.")])
    first = await ask(engine, "one")
    await fact(engine, SourceKind.RAG, "kb", "a fact")
    second = await ask(engine, "two")
    await engine.put_context_blocks(SCOPE, [block("m", BlockType.MEMORY, "Likes tea.")])
    third = await ask(engine, "three")
    assert first.report.stable_prefix_hash == second.report.stable_prefix_hash
    assert second.report.stable_prefix_unchanged
    assert third.report.stable_prefix_hash != second.report.stable_prefix_hash
    assert not third.report.stable_prefix_unchanged


@pytest.mark.req("D-02")
@pytest.mark.parametrize("kind", [BlockType.PLAN, BlockType.MEMORY, BlockType.INSTRUCTION])
async def test_what_stands_gives_way_before_the_budget_does(
    engine: ContextEngine, kind: BlockType
) -> None:
    await engine.put_context_blocks(SCOPE, [block(f"b{n}", kind, "do it " * 60) for n in range(9)])
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=500, reserved_reply_tokens=0))
    result = await ask(engine, "hello " * 100, config)
    assert not result.report.over_budget
    assert result.assembled_input.total_tokens <= 500
    dropped = [d for d in result.report.prune_decisions if d.action == "dropped"]
    assert {d.reason for d in dropped} <= {"over_budget", "over_layer_budget"}
    assert dropped


@pytest.mark.req("A-11")
@pytest.mark.parametrize("window", range(300, 801, 100))
async def test_of_a_long_chinese_document_the_best_sentences_go_in(
    engine: ContextEngine, window: int
) -> None:
    """A Chinese character may cost two tokens, so that as many as there are tokens do not fit."""
    around = "仓库的货物每天都有人清点，记录写在账本里，由专人保管。" * 60
    fact = "北区仓库的负责人是王小明。"
    source = EvidenceSource(kind=SourceKind.RAG, name="handbook")
    await engine.record_evidence(SCOPE, f"{around}{fact}{around}", source, EvidenceType.RAG_DOC)
    budget = BudgetConfig(max_input_tokens=window, reserved_reply_tokens=10)
    result = await ask(engine, "北区仓库由谁负责？", RuntimeConfig(budget=budget, locale="zh"))
    assert fact in context(result)
    assert result.report.token_used <= window - 10
