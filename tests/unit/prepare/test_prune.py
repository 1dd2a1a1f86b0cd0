"""The pruners keep their contract (A-11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ce_engine.ports.pruner import Pruner
from ce_engine.prepare.choose.prune import (
    DegradeToSummaryPruner,
    GreedyPriorityPruner,
    GroupAwarePruner,
)
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import BlockType, Priority
from ce_engine.schema.pruning import PruneBudget, PruneRules
from ce_engine.testing.pruner_contract import PrunerContract


def block(name: str, priority: Priority, tokens: int, **more: Any) -> ContextBlock:
    return ContextBlock(
        block_id=name,
        block_type=BlockType.EVIDENCE,
        priority=priority,
        token_estimate=tokens,
        **more,
    )


def kept(blocks: list[ContextBlock], budget: int, rules: PruneRules | None = None) -> list[str]:
    result = GreedyPriorityPruner().prune(blocks, PruneBudget(budget), rules)
    assert [d.block_id for d in result.decisions] == [b.block_id for b in blocks]
    assert {b.block_id for b in result.kept} | {b.block_id for b in result.dropped} == {
        b.block_id for b in blocks
    }
    return [b.block_id for b in result.kept]


@pytest.mark.req("A-11")
def test_must_is_kept_over_the_budget_and_leaves_nothing_for_the_rest() -> None:
    blocks = [block("low", Priority.LOW, 1), block("must", Priority.MUST, 50)]
    assert kept(blocks, 10) == ["must"]


@pytest.mark.req("A-11")
def test_by_priority_then_newest_first_in_the_order_given() -> None:
    blocks = [
        block("old-high", Priority.HIGH, 10),
        block("medium", Priority.MEDIUM, 10),
        block("new-high", Priority.HIGH, 10),
        block("low", Priority.LOW, 10),
    ]
    assert kept(blocks, 10) == ["new-high"]
    assert kept(blocks, 20) == ["old-high", "new-high"]
    assert kept(blocks, 30) == ["old-high", "medium", "new-high"]


def test_a_block_that_does_not_fit_lets_a_smaller_one_in() -> None:
    blocks = [block("small", Priority.HIGH, 5), block("big", Priority.HIGH, 100)]
    assert kept(blocks, 10) == ["small"]


@pytest.mark.req("A-11")
def test_tiers_bound_their_priority() -> None:
    blocks = [block("a", Priority.LOW, 5), block("b", Priority.LOW, 5)]
    result = GreedyPriorityPruner().prune(blocks, PruneBudget(100, {Priority.LOW: 5}))
    assert [b.block_id for b in result.kept] == ["b"]
    assert result.decisions[0].reason == "over_tier_budget"


@pytest.mark.req("A-11")
def test_expired_and_sensitive_blocks_go_first() -> None:
    now = "2026-11-21T12:00:00Z"
    blocks = [
        block("old", Priority.LOW, 1, created_at="2026-11-21T10:00:00Z"),
        block("new", Priority.LOW, 1, created_at="2026-11-21T11:59:00Z"),
        block("secret", Priority.LOW, 1, sensitivity="restricted"),
    ]
    rules = PruneRules(
        ttl_seconds={Priority.LOW: 3600}, now=now, exclude_sensitivity=frozenset({"restricted"})
    )
    assert kept(blocks, 100, rules) == ["new"]


def test_nothing_gives_nothing() -> None:
    assert kept([], 10) == []


def halved(block: ContextBlock, most: int) -> ContextBlock | None:
    if block.token_estimate < 2:
        return None
    return block.model_copy(
        update={"token_estimate": block.token_estimate // 2, "content": "short"}
    )


@pytest.mark.req("A-11", "A-27")
class TestGreedyPriorityPruner(PrunerContract):
    @pytest.fixture
    def pruner(self) -> Pruner:
        return GreedyPriorityPruner()


@pytest.mark.req("A-11", "A-27")
class TestGroupAwarePruner(PrunerContract):
    @pytest.fixture
    def pruner(self) -> Pruner:
        return GroupAwarePruner()

    def test_blocks_of_one_piece_of_evidence_stay_or_go_together(
        self, pruner: Pruner, blocks: Sequence[ContextBlock], room: int
    ) -> None:
        result = pruner.prune(blocks, PruneBudget(room))
        kept_, dropped = (
            {b.refs[0].evidence_id for b in side if b.refs and b.priority is not Priority.MUST}
            for side in (result.kept, result.dropped)
        )
        assert not kept_ & dropped


@pytest.mark.req("A-11", "A-27")
class TestDegradeToSummaryPruner(PrunerContract):
    @pytest.fixture
    def pruner(self) -> Pruner:
        return DegradeToSummaryPruner(halved)

    def test_what_does_not_fit_goes_out_shorter(self) -> None:
        blocks = [block("big", Priority.LOW, 60), block("small", Priority.HIGH, 50)]
        result = DegradeToSummaryPruner(halved).prune(blocks, PruneBudget(80))
        assert [(b.block_id, b.content) for b in result.kept] == [("big", "short"), ("small", "")]
        told = [(d.action, d.reason, d.token_estimate) for d in result.decisions]
        assert told == [("degraded", "shorter", 30), ("kept", "fits", 50)]

    def test_what_is_still_too_long_is_dropped(self) -> None:
        result = DegradeToSummaryPruner(halved).prune(
            [block("a", Priority.LOW, 60)], PruneBudget(9)
        )
        assert [d.action for d in result.decisions] == ["dropped"]

    def test_what_is_excluded_is_not_brought_back_shorter(self) -> None:
        secret = block("a", Priority.LOW, 60, sensitivity="restricted")
        rules = PruneRules(exclude_sensitivity=frozenset({"restricted"}))
        result = DegradeToSummaryPruner(halved).prune([secret], PruneBudget(50), rules)
        assert result.kept == []
