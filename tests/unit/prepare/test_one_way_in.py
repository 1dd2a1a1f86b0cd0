"""Every block goes in by one way: the pruner chooses, and what the report says of it is what goes out (A-10, A-11, A-17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from ce_engine import (
    BlockType,
    BudgetConfig,
    CharBasedEstimator,
    CollectConfig,
    ConfigError,
    ContextBlock,
    ContextEngine,
    ContextPiece,
    DegradeToSummaryPruner,
    EvidenceSource,
    EvidenceType,
    GreedyPriorityPruner,
    MemoryStore,
    Message,
    PrepareResult,
    Priority,
    PruneConfig,
    Ref,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    create_context_engine,
    load_config,
)
from ce_engine.schema.pruning import PruneBudget, PruneResult, PruneRules
from ce_engine.schema.report import PruneDecision
from tests.hosts.context_host import Notes


SCOPE = Scope(session_id="s1")
TYPES = [
    BlockType.MEMORY,
    BlockType.STATE,
    BlockType.PLAN,
    BlockType.INSTRUCTION,
    BlockType.CONVERSATION,
    BlockType.EVIDENCE,
]
LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture
async def engine() -> AsyncIterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    await made.close()


def block(name: str, kind: BlockType, text: str, **more: Any) -> ContextBlock:
    values = {"block_id": name, "block_type": kind, "priority": "low", "content": text, **more}
    return ContextBlock.model_validate(values)


async def ask(
    engine: ContextEngine, prune: PruneConfig | None = None, text: str = "What now?", **more: Any
) -> PrepareResult:
    slow = StoreConfig(deadline_s=30)  # a busy machine is no fault here
    config = RuntimeConfig(prune=prune or PruneConfig(), store=slow, **more)
    result = await engine.prepare_turn(SCOPE, Message(role=Role.USER, content=text), config)
    await engine.fail_turn(SCOPE, "not_sent", turn_id=result.report.turn_id)
    return result


def sent(result: PrepareResult) -> str:
    return "\n".join(part.content for part in result.assembled_input.parts)


def decisions(result: PrepareResult) -> dict[str, PruneDecision]:
    return {decision.block_id: decision for decision in result.report.prune_decisions}


def first_word(block: ContextBlock, _: int) -> ContextBlock:
    word = block.content.split()[0]
    return block.model_copy(update={"content": word, "token_estimate": 3})


@pytest.mark.req("A-11")
@pytest.mark.parametrize("kind", TYPES)
async def test_what_a_pruner_shortens_goes_out_shortened(
    engine: ContextEngine, kind: BlockType
) -> None:
    await engine.put_context_blocks(SCOPE, [block("b", kind, f"gist {'detail ' * 80}")])
    prune = PruneConfig(strategy=DegradeToSummaryPruner(first_word))
    result = await ask(
        engine, prune, budget=BudgetConfig(max_input_tokens=4000, tier_tokens={Priority.LOW: 30})
    )
    assert "gist" in sent(result)
    assert "detail" not in sent(result)
    told = decisions(result)["b"]
    assert (told.action, told.reason) == ("degraded", "shorter")
    assert told.token_estimate <= 20
    assert result.report.token_used == result.assembled_input.total_tokens < 100


@pytest.mark.req("D-02")
@pytest.mark.parametrize("text", ["She likes green tea.", "她喜欢喝绿茶。"])
async def test_nothing_goes_for_room_that_there_is_without_it(
    engine: ContextEngine, text: str
) -> None:
    """A plan is too large by itself: leaving out a setting before it gains nothing."""
    blocks = [
        block("tea", BlockType.MEMORY, text, priority="high"),
        block("plan", BlockType.PLAN, "Write on. " * 900),
    ]
    await engine.put_context_blocks(SCOPE, blocks)
    result = await ask(engine, budget=BudgetConfig(max_input_tokens=900, reserved_reply_tokens=9))
    told = decisions(result)
    assert (told["tea"].action, told["plan"].action) == ("kept", "dropped")
    assert text in sent(result)


@pytest.mark.req("A-11")
@pytest.mark.parametrize("kind", TYPES)
async def test_what_is_expired_or_too_sensitive_does_not_go_out(
    engine: ContextEngine, kind: BlockType
) -> None:
    await engine.put_context_blocks(
        SCOPE,
        [
            block("old", kind, "an old text", created_at=LONG_AGO),
            block("secret", kind, "a secret text", sensitivity="restricted"),
            block("plain", kind, "a plain text", sensitivity="public"),
        ],
    )
    prune = PruneConfig(
        ttl_seconds={Priority.LOW: 3600}, exclude_sensitivity=frozenset({"restricted"})
    )
    result = await ask(engine, prune)
    assert "a plain text" in sent(result)
    assert "old text" not in sent(result)
    assert "secret" not in sent(result)
    reasons = {name: each.reason for name, each in decisions(result).items()}
    assert (reasons["old"], reasons["secret"]) == ("expired", "sensitivity")


@pytest.mark.req("A-11", "A-17")
async def test_a_tier_bounds_the_blocks_of_all_kinds_together(engine: ContextEngine) -> None:
    kinds = [BlockType.MEMORY, BlockType.STATE, BlockType.PLAN, BlockType.INSTRUCTION]
    texts = {kind: f"{kind} " * 8 for kind in kinds}
    await engine.put_context_blocks(SCOPE, [block(kind, kind, texts[kind]) for kind in kinds])
    budget = BudgetConfig(max_input_tokens=8000, tier_tokens={Priority.LOW: 30})
    result = await ask(engine, budget=budget)
    out = [kind for kind in kinds if texts[kind].strip() in sent(result)]
    assert len(out) == 1
    told = decisions(result)
    assert {told[kind].reason for kind in kinds if kind not in out} == {"over_tier_budget"}
    assert sum(told[kind].token_estimate for kind in out) <= 30


@pytest.mark.req("A-11")
async def test_what_a_block_refers_to_is_as_sensitive_as_it_was(engine: ContextEngine) -> None:
    source = EvidenceSource(kind=SourceKind.RAG, name="kb")
    secret = await engine.ingest(
        SCOPE, "the salary", source, EvidenceType.RAG_DOC, metadata={"sensitivity": "restricted"}
    )
    ref = Ref(evidence_id=secret.evidence_id)
    await engine.put_context_blocks(SCOPE, [block("b", BlockType.MEMORY, "", refs=[ref])])
    assert "the salary" in sent(await ask(engine))
    result = await ask(engine, PruneConfig(exclude_sensitivity=frozenset({"restricted"})))
    assert "the salary" not in sent(result)
    assert decisions(result)["b"].reason == "sensitivity"
    assert decisions(result)[f"e:{secret.evidence_id}"].reason == "sensitivity"


class Remembers:
    """Chooses as the default one does, and remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: dict[str, ContextBlock] = {}

    def prune(
        self, blocks: Sequence[ContextBlock], budget: PruneBudget, rules: PruneRules | None = None
    ) -> PruneResult:
        self.seen |= {each.block_id: each for each in blocks}
        return GreedyPriorityPruner().prune(blocks, budget, rules)


@pytest.mark.req("A-10", "A-11")
async def test_the_pruner_sees_every_block_with_its_text(engine: ContextEngine) -> None:
    pruner = Remembers()
    blocks = [block(f"b-{kind}", kind, f"text of {kind}") for kind in TYPES]
    await engine.put_context_blocks(SCOPE, blocks)
    found = await engine.ingest(
        SCOPE, "a document", EvidenceSource(kind=SourceKind.RAG, name="kb"), EvidenceType.RAG_DOC
    )
    await ask(engine, PruneConfig(strategy=pruner), text="这是问题")
    for kind in TYPES:
        shown = pruner.seen[f"b-{kind}"]
        assert (shown.block_type, shown.priority) == (kind, Priority.LOW)
        assert shown.content == f"text of {kind}"
        assert shown.token_estimate > 0
    assert pruner.seen[f"e:{found.evidence_id}"].content == "a document"
    assert "这是问题" in [each.content for each in pruner.seen.values()]


class Liar:
    """Says anything of what it chose."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def prune(
        self, blocks: Sequence[ContextBlock], budget: PruneBudget, rules: PruneRules | None = None
    ) -> PruneResult:
        result = GreedyPriorityPruner().prune(blocks, budget, rules)
        self.change(result)
        return result


def says_all_is_short(result: PruneResult) -> None:
    for decision in result.decisions:
        decision.action, decision.token_estimate = "degraded", 0


def keeps_all_twice(result: PruneResult) -> None:
    result.kept = [*result.kept, *result.dropped, *result.kept]
    result.dropped = []


def drops_all(result: PruneResult) -> None:
    result.kept, result.dropped = [], [*result.kept, *result.dropped]


def makes_one_of_its_own(result: PruneResult) -> None:
    result.kept.append(block("own", BlockType.MEMORY, "nobody's words"))


def makes_it_longer(result: PruneResult) -> None:
    result.kept = [each.model_copy(update={"content": "much " * 4000}) for each in result.kept]


def tells_the_text(result: PruneResult) -> None:
    for decision in result.decisions:
        decision.reason = "because it says: my secret memory"


@pytest.mark.req("A-11")
@pytest.mark.parametrize(
    "change",
    [
        says_all_is_short,
        keeps_all_twice,
        drops_all,
        makes_one_of_its_own,
        makes_it_longer,
        tells_the_text,
    ],
)
async def test_what_a_pruner_says_is_checked_by_what_goes_out(
    engine: ContextEngine, change: Any
) -> None:
    blocks = [
        block("memory", BlockType.MEMORY, "my secret memory", priority="must"),
        block("fact", BlockType.EVIDENCE, "a fact"),
        block("long", BlockType.STATE, "state " * 3000),
    ]
    await engine.put_context_blocks(SCOPE, blocks)
    budget = BudgetConfig(max_input_tokens=2000, reserved_reply_tokens=0)
    result = await ask(engine, PruneConfig(strategy=Liar(change)), budget=budget)
    text, told = sent(result), decisions(result)
    assert not result.report.over_budget
    assert CharBasedEstimator().estimate_text(text) <= result.report.token_used <= 2000
    for each in blocks:
        goes_out = each.content.strip() in text
        assert (told[each.block_id].action == "kept") == goes_out
    assert "What now?" in text
    assert "nobody's words" not in text
    assert "secret" not in result.report.model_dump_json()


@pytest.mark.req("A-11", "A-22")
async def test_the_pruner_is_chosen_by_configuration(engine: ContextEngine) -> None:
    await engine.put_context_blocks(
        SCOPE, [block("b", BlockType.MEMORY, "One sentence. 第二句话。" * 40)]
    )
    budget = BudgetConfig(max_input_tokens=4000, tier_tokens={Priority.LOW: 60})
    assert decisions(await ask(engine, budget=budget))["b"].action == "dropped"
    config = load_config('[prune]\nstrategy = "degrade_to_summary"')
    result = await ask(engine, config.prune, budget=budget, locale="zh")
    assert decisions(result)["b"].action == "degraded"
    assert "One sentence." in sent(result)
    assert "略去" in sent(result)
    grouped = await ask(engine, PruneConfig(strategy="group_aware"), budget=budget)
    assert decisions(grouped)["b"].action == "dropped"


@pytest.mark.parametrize("strategy", ["gready", 7, None])
def test_what_is_no_strategy_is_refused(strategy: Any) -> None:
    with pytest.raises(ConfigError, match=r"group_aware.*prune\(\)|prune\(\).*group_aware"):
        PruneConfig(strategy=strategy)


@pytest.mark.req("A-21", "A-11")
async def test_a_turn_with_a_pruner_of_ones_own_can_be_replayed(engine: ContextEngine) -> None:
    await engine.put_context_blocks(SCOPE, [block("b", BlockType.MEMORY, "gist " + "detail " * 80)])
    budget = BudgetConfig(max_input_tokens=4000, tier_tokens={Priority.LOW: 30})
    await ask(engine, PruneConfig(strategy="degrade_to_summary"), budget=budget)
    again = await engine.replay(SCOPE)
    assert again.equal
    await ask(engine, PruneConfig(strategy=DegradeToSummaryPruner(first_word)), budget=budget)
    again = await engine.replay(SCOPE)
    assert not again.equal
    assert [problem.code for problem in again.problems] == ["CONTEXT_REPLAY_PRUNER"]


@pytest.mark.req("D-07", "D-11", "E-03")
@pytest.mark.parametrize("by", ["source", "evidence"])
async def test_every_retrieved_piece_is_told(by: str) -> None:
    texts = [f"piece {n}: {'detail ' * 40}" for n in range(20)]
    notes = Notes([ContextPiece(text, score=n / 20) for n, text in enumerate(texts)])
    engine = create_context_engine(
        MemoryStore(),
        token_estimator=CharBasedEstimator(),
        sources=[notes] if by == "source" else [],
        config=RuntimeConfig(collect=CollectConfig(deadline_s=30)),
    )
    for text in texts if by == "evidence" else ():
        source = EvidenceSource(kind=SourceKind.RAG, name="kb")
        await engine.ingest(SCOPE, text, source, EvidenceType.RAG_DOC)
    slow = CollectConfig(deadline_s=30)
    result = await ask(engine, budget=BudgetConfig(max_input_tokens=600), collect=slow)
    out = [n for n, text in enumerate(texts) if text.strip() in sent(result)]
    assert 0 < len(out) < 20
    if by == "source":
        assert out == list(range(20 - len(out), 20)), "the best go in"
    told = Counter(d.action for d in result.report.prune_decisions if d.block_id[1:2] in ":o")
    assert told == {"kept": len(out), "dropped": 20 - len(out)}
    assert result.report.layers["retrieved"].truncated
    assert result.report.layers["retrieved"].chunks == len(out)
    whole = await ask(engine, budget=BudgetConfig(max_input_tokens=30_000), collect=slow)
    assert not whole.report.layers["retrieved"].truncated
    await engine.close()


@pytest.mark.req("D-07", "D-11")
async def test_of_one_source_with_too_many_pieces_the_best_stay_and_the_rest_is_told() -> None:
    notes = Notes([ContextPiece(f"piece {n}.", score=n / 260) for n in range(260)])
    slow = CollectConfig(deadline_s=30)
    engine = create_context_engine(
        MemoryStore(), token_estimator=CharBasedEstimator(), sources=[notes]
    )
    result = await ask(engine, budget=BudgetConfig(max_input_tokens=30_000), collect=slow)
    assert [n for n in range(260) if f"piece {n}." in sent(result)] == list(range(60, 260))
    advice = "CONTEXT_INPUT_TOO_LARGE: 260 retrieved pieces, 200 may be; search for less"
    assert advice in result.report.warnings
    gone = [d for d in result.report.prune_decisions if d.reason == "over_limit"]
    assert len(gone) == 60
    assert result.report.layers["retrieved"].truncated
    await engine.close()
