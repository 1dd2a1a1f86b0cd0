"""The greedy pruner keeps its contract (A-11)."""

from __future__ import annotations

from typing import Any

import pytest

from ce_engine.ports import PruneBudget, PruneRules
from ce_engine.prepare.prune import GreedyPriorityPruner
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import BlockType, Priority


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
