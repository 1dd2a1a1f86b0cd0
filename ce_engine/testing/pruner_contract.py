"""What every pruner must do, as tests: subclass `PrunerContract` and give it a `pruner` fixture (A-27)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from ce_engine.ports.pruner import Pruner
from ce_engine.schema.document import ContextBlock, Ref
from ce_engine.schema.enums import BlockType, Priority
from ce_engine.schema.pruning import PruneBudget, PruneResult, PruneRules


NOW = "2026-01-02T12:00:00Z"
RULES = PruneRules(
    ttl_seconds={Priority.LOW: 3600}, now=NOW, exclude_sensitivity=frozenset({"restricted"})
)


def random_blocks(rng: random.Random, most: int = 16) -> list[ContextBlock]:
    """Blocks of all priorities, oldest first; some share their evidence, are old, or are sensitive."""
    return [
        ContextBlock(
            block_id=f"b{n}",
            block_type=rng.choice(list(BlockType)),
            priority=rng.choice(list(Priority)),
            token_estimate=rng.randrange(30),
            content="词 " * rng.randrange(4),
            refs=[Ref(evidence_id=f"e{rng.randrange(4)}")] if rng.random() < 0.5 else [],
            created_at=rng.choice([None, "2026-01-01T00:00:00Z", NOW]),
            sensitivity=rng.choice([None, None, "internal", "restricted"]),
        )
        for n in range(rng.randrange(most))
    ]


class PrunerContract:
    """Everything that `ports.Pruner` promises.

    A subclass gives a fixture `pruner`. Each test runs over many random lists of blocks.
    """

    @pytest.fixture(params=range(6))
    def blocks(self, request: pytest.FixtureRequest) -> list[ContextBlock]:
        return random_blocks(random.Random(request.param))  # noqa: S311 - no secret

    @pytest.fixture(params=[-5, 20, 60])
    def room(self, request: pytest.FixtureRequest) -> int:
        room: int = request.param
        return room

    def test_what_must_be_kept_is_never_dropped(
        self, pruner: Pruner, blocks: Sequence[ContextBlock], room: int
    ) -> None:
        must = (Priority.MUST, Priority.HIGH)
        result = pruner.prune(blocks, PruneBudget(room), PruneRules(must))
        assert {b.block_id for b in blocks if b.priority in must} <= _ids(result.kept)

    def test_the_rest_fits_into_what_that_leaves(
        self, pruner: Pruner, blocks: Sequence[ContextBlock], room: int
    ) -> None:
        result = pruner.prune(blocks, PruneBudget(room), RULES)
        rest = [b.token_estimate for b in result.kept if b.priority is not Priority.MUST]
        must = sum(b.token_estimate for b in blocks if b.priority is Priority.MUST)
        assert sum(rest) <= max(0, room - must)

    def test_a_tier_bounds_its_priority(
        self, pruner: Pruner, blocks: Sequence[ContextBlock]
    ) -> None:
        tiers = {Priority.LOW: 10, Priority.MEDIUM: 0}
        result = pruner.prune(blocks, PruneBudget(10_000, tiers))
        for priority, most in tiers.items():
            used = sum(b.token_estimate for b in result.kept if b.priority is priority)
            assert used <= most

    def test_what_is_kept_stays_in_order(
        self, pruner: Pruner, blocks: Sequence[ContextBlock], room: int
    ) -> None:
        result = pruner.prune(blocks, PruneBudget(room), RULES)
        order = [b.block_id for b in blocks]
        for side in (result.kept, result.dropped):
            assert [b.block_id for b in side] == sorted(_ids(side), key=order.index)

    def test_there_is_one_decision_for_every_block(
        self, pruner: Pruner, blocks: Sequence[ContextBlock], room: int
    ) -> None:
        result = pruner.prune(blocks, PruneBudget(room), RULES)
        assert [d.block_id for d in result.decisions] == [b.block_id for b in blocks]
        dropped = {d.block_id for d in result.decisions if d.action == "dropped"}
        assert dropped == _ids(result.dropped)
        assert _ids(result.kept) == {b.block_id for b in blocks} - dropped
        assert all(d.action in {"kept", "dropped", "degraded"} for d in result.decisions)
        assert all(d.reason for d in result.decisions)

    def test_what_is_expired_or_too_sensitive_goes(
        self, pruner: Pruner, blocks: Sequence[ContextBlock]
    ) -> None:
        result = pruner.prune(blocks, PruneBudget(10_000), RULES)
        for block in result.kept:
            if block.priority is not Priority.MUST:
                assert block.sensitivity != "restricted"
                assert block.priority is not Priority.LOW or block.created_at in (None, NOW)

    def test_the_same_again_gives_the_same_and_changes_nothing(
        self, pruner: Pruner, blocks: Sequence[ContextBlock], room: int
    ) -> None:
        before = [block.model_copy(deep=True) for block in blocks]
        first, second = (_parts(pruner.prune(blocks, PruneBudget(room), RULES)) for _ in range(2))
        assert first == second
        assert list(blocks) == before

    def test_no_blocks_no_decisions(self, pruner: Pruner) -> None:
        assert _parts(pruner.prune([], PruneBudget(100))) == ([], [], [])


def _ids(blocks: Sequence[ContextBlock]) -> set[str]:
    return {block.block_id for block in blocks}


def _parts(result: PruneResult) -> tuple[list[ContextBlock], list[ContextBlock], list[object]]:
    return result.kept, result.dropped, list(result.decisions)
