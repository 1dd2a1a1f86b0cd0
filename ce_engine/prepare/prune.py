"""Which of the candidate blocks go out: by priority, then newest first, within the budget (A-11)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ce_engine.ports import PruneBudget, PruneResult, PruneRules
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import Priority
from ce_engine.schema.report import PruneDecision


RANK = {priority: rank for rank, priority in enumerate(Priority)}


class GreedyPriorityPruner:
    """Keeps what must be kept, then takes blocks by priority, newer ones first, while they fit.

    Blocks are given oldest first. `must` blocks are kept even over the budget: what that means is the
    caller's to decide (over budget, or `BudgetExceededError`).
    """

    def prune(
        self, blocks: Sequence[ContextBlock], budget: PruneBudget, rules: PruneRules | None = None
    ) -> PruneResult:
        rules = rules or PruneRules()
        must = set(rules.must_keep_priorities)
        reasons: dict[int, str] = {}
        room = budget.max_tokens
        tiers = dict(budget.tier_tokens or {})
        for position, block in enumerate(blocks):
            if block.priority in must:
                reasons[position] = "must"
                room -= block.token_estimate
        order = sorted(
            (p for p in range(len(blocks)) if p not in reasons),
            key=lambda p: (RANK[blocks[p].priority], -p),
        )
        dropped: dict[int, str] = {}
        for position in order:
            block = blocks[position]
            why = _excluded(block, rules) or _too_big(block, room, tiers)
            if why:
                dropped[position] = why
                continue
            reasons[position] = "fits"
            room -= block.token_estimate
            if block.priority in tiers:
                tiers[block.priority] -= block.token_estimate
        return _result(blocks, reasons, dropped)


def _too_big(block: ContextBlock, room: int, tiers: dict[Priority, int]) -> str | None:
    if block.token_estimate > room:
        return "over_budget"
    if block.token_estimate > tiers.get(block.priority, block.token_estimate):
        return "over_tier_budget"
    return None


def _excluded(block: ContextBlock, rules: PruneRules) -> str | None:
    if block.sensitivity is not None and block.sensitivity in rules.exclude_sensitivity:
        return "sensitivity"
    ttl = (rules.ttl_seconds or {}).get(block.priority)
    if ttl is None or not block.created_at:
        return None
    now = _time(rules.now) if rules.now else datetime.now(UTC)
    return "expired" if (now - _time(block.created_at)).total_seconds() > ttl else None


def _time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _result(
    blocks: Sequence[ContextBlock], kept: dict[int, str], dropped: dict[int, str]
) -> PruneResult:
    result = PruneResult()
    for position, block in enumerate(blocks):
        stays = position in kept
        (result.kept if stays else result.dropped).append(block)
        result.decisions.append(
            PruneDecision(
                block_id=block.block_id,
                action="kept" if stays else "dropped",
                reason=kept[position] if stays else dropped[position],
                token_estimate=block.token_estimate,
            )
        )
    return result
