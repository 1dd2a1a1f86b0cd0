"""Which of the candidate blocks go out: by priority, then newest first, within the budget (A-11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from math import ceil

from ce_engine.config import RuntimeConfig
from ce_engine.ports.pruner import Pruner
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import Priority
from ce_engine.schema.pruning import PruneBudget, PruneResult, PruneRules
from ce_engine.schema.report import PruneDecision
from ce_engine.schema.times import parse_time
from ce_engine.text.beginning import cut


RANK = {priority: rank for rank, priority in enumerate(Priority)}
Unit = Sequence[int]
"""Positions of blocks that stay or go together."""
Shorten = Callable[[ContextBlock, int], ContextBlock | None]
"""A shorter block in the place of this one, of at most so many tokens; `None` if there is none."""

SAFE = 0.8
"""A part of a text may cost more a character than all of it."""

LEAST_CHARS = 60
"""A beginning that is shorter says nothing."""


class GreedyPriorityPruner:
    """Keeps what must be kept, then takes blocks by priority, newer ones first, while they fit.

    Blocks are given oldest first. `must` blocks are kept even over the budget: what that means is the
    caller's to decide (over budget, or `BudgetExceededError`).
    """

    keeps_all = True
    """What has room stays, so that nobody needs to ask."""

    def prune(
        self, blocks: Sequence[ContextBlock], budget: PruneBudget, rules: PruneRules | None = None
    ) -> PruneResult:
        choice = _Choice(blocks, budget, rules or PruneRules())
        choice.take([[position] for position in range(len(blocks))])
        return choice.result()


def pruner_of(config: RuntimeConfig, default: Pruner) -> Pruner:
    """The pruner that a configuration chooses; where it says nothing, the engine's own (`default`)."""
    if "strategy" not in config.prune.model_fields_set:
        return default
    strategy: str | Pruner = config.prune.strategy
    if not isinstance(strategy, str):
        return strategy
    makers: dict[str, Callable[[], Pruner]] = {
        "greedy": GreedyPriorityPruner,
        "group_aware": GroupAwarePruner,
        "degrade_to_summary": partial(DegradeToSummaryPruner, locale=config.locale),
    }
    return makers[strategy]()


class GuardedPruner:
    """A pruner of somebody else's; where it fails, the greedy one stands in, and `failed` says so (A-25)."""

    def __init__(self, pruner: Pruner) -> None:
        self._pruner = pruner
        self.keeps_all = type(pruner) is GreedyPriorityPruner
        self.failed = False

    def prune(
        self, blocks: Sequence[ContextBlock], budget: PruneBudget, rules: PruneRules | None = None
    ) -> PruneResult:
        try:
            return _checked(self._pruner.prune(blocks, budget, rules))
        except Exception:  # noqa: BLE001 - somebody else's code may raise anything
            self.failed = True
            return GreedyPriorityPruner().prune(blocks, budget, rules)


def _checked(answer: PruneResult) -> PruneResult:
    """An answer of somebody else's, if it is one.

    Raises:
        TypeError: it is none.
    """
    right = all(isinstance(block, ContextBlock) for block in answer.kept)
    if not (right and all(isinstance(decision, PruneDecision) for decision in answer.decisions)):
        raise TypeError("a pruner answers a PruneResult of the blocks that it was given")
    return PruneResult(list(answer.kept), list(answer.dropped), list(answer.decisions))


class GroupAwarePruner:
    """Like the greedy one, but blocks of one piece of evidence stay or go together.

    Half of a document can say the opposite of the whole. A block belongs with those that share its
    first ref's evidence; one without refs is on its own. A group has its highest priority. What must
    be kept is kept in any case, with or without the rest of its group.
    """

    def prune(
        self, blocks: Sequence[ContextBlock], budget: PruneBudget, rules: PruneRules | None = None
    ) -> PruneResult:
        units: dict[object, list[int]] = {}
        for position, block in enumerate(blocks):
            whole: object = block.refs[0].evidence_id if block.refs else position
            units.setdefault(whole, []).append(position)
        choice = _Choice(blocks, budget, rules or PruneRules())
        choice.take(list(units.values()))
        return choice.result()


class DegradeToSummaryPruner:
    """Like the greedy one, but what does not fit may go out shorter instead (`degraded`).

    Args:
        shorten: gives the block with a shorter `content`, for example with a summary that was made before:
            a pruner itself calls no model (it is pure and synchronous). Without one it is the beginning of
            the text, to the end of a sentence, and how much is left out.
        locale: `en` or `zh`, of that note.
    """

    def __init__(self, shorten: Shorten | None = None, *, locale: str = "en") -> None:
        self._shorten = shorten or partial(beginning, locale=locale)

    def prune(
        self, blocks: Sequence[ContextBlock], budget: PruneBudget, rules: PruneRules | None = None
    ) -> PruneResult:
        choice = _Choice(blocks, budget, rules or PruneRules())
        choice.take([[position] for position in range(len(blocks))])
        choice.shorten(self._shorten)
        return choice.result()


def beginning(block: ContextBlock, most: int, *, locale: str) -> ContextBlock | None:
    """The beginning of a block's text, by the tokens that a character of it costs; `None` where too little is left."""
    chars = len(block.content)
    if not chars or not block.token_estimate:
        return None
    per_char = block.token_estimate / chars
    text = cut(block.content, int(most / per_char * SAFE), locale)
    if len(text) < LEAST_CHARS:
        return None
    return block.model_copy(
        update={"content": text, "token_estimate": ceil(len(text) * per_char / SAFE)}
    )


class _Choice:
    """Blocks as they are kept, shortened and dropped, and what is left of the budget."""

    def __init__(
        self, blocks: Sequence[ContextBlock], budget: PruneBudget, rules: PruneRules
    ) -> None:
        self.blocks = blocks
        self.rules = rules
        self.must = frozenset(rules.must_keep_priorities)
        self.room = budget.max_tokens
        self.tiers = dict(budget.tier_tokens or {})
        self.kept: dict[int, str] = {}
        self.dropped: dict[int, str] = {}
        self.short: dict[int, ContextBlock] = {}

    def take(self, units: Sequence[Unit]) -> None:
        must = {p for p, b in enumerate(self.blocks) if b.priority in self.must}
        self.kept |= dict.fromkeys(must, "must")
        self.room -= sum(self.blocks[position].token_estimate for position in must)
        rest = [left for unit in units if (left := [p for p in unit if p not in must])]
        for unit in sorted(rest, key=lambda unit: (self._rank(unit), -unit[-1])):
            why = self._excluded(unit) or self._too_big(unit)
            if why:
                self.dropped |= dict.fromkeys(unit, why)
                continue
            self.kept |= dict.fromkeys(unit, "fits")
            for position in unit:
                self._spend(self.blocks[position].token_estimate, self.blocks[position].priority)

    def shorten(self, shorten: Shorten) -> None:
        """Let shorter blocks stand in for those that were too big, in the order in which they lost."""
        for position, why in list(self.dropped.items()):
            block = self.blocks[position]
            if not why.startswith("over_"):
                continue
            most = min(self.room, self.tiers.get(block.priority, self.room))
            short = shorten(block, most)
            if short is None or short.token_estimate > most or not short.content.strip():
                continue
            del self.dropped[position]
            self.short[position] = short
            self._spend(short.token_estimate, block.priority)

    def _spend(self, tokens: int, priority: Priority) -> None:
        self.room -= tokens
        if priority in self.tiers:
            self.tiers[priority] -= tokens

    def _rank(self, unit: Unit) -> int:
        return min(RANK[self.blocks[position].priority] for position in unit)

    def _too_big(self, unit: Unit) -> str | None:
        if len(unit) == 1 and not self.tiers:
            return "over_budget" if self.blocks[unit[0]].token_estimate > self.room else None
        tokens: Counter[Priority] = Counter()
        for position in unit:
            tokens[self.blocks[position].priority] += self.blocks[position].token_estimate
        if tokens.total() > self.room:
            return "over_budget"
        over = any(count > self.tiers.get(priority, count) for priority, count in tokens.items())
        return "over_tier_budget" if over else None

    def _excluded(self, unit: Unit) -> str | None:
        if not (self.rules.exclude_sensitivity or self.rules.ttl_seconds):
            return None
        reasons = (excluded(self.blocks[position], self.rules) for position in unit)
        return next((why for why in reasons if why), None)

    def result(self) -> PruneResult:
        result = PruneResult()
        for position, block in enumerate(self.blocks):
            stays = self.short.get(position, block)
            drop_reason = self.dropped.get(position)
            (result.kept if drop_reason is None else result.dropped).append(stays)
            action = "dropped" if drop_reason else "degraded" if position in self.short else "kept"
            result.decisions.append(
                PruneDecision(
                    block_id=block.block_id,
                    action=action,
                    reason=drop_reason or self.kept.get(position, "shorter"),
                    token_estimate=stays.token_estimate,
                )
            )
        return result


def excluded(block: ContextBlock, rules: PruneRules) -> str | None:
    """Why the rules let a block go, whatever room there is; `None` if they do not."""
    if block.sensitivity is not None and block.sensitivity in rules.exclude_sensitivity:
        return "sensitivity"
    ttl = (rules.ttl_seconds or {}).get(block.priority)
    block_time = parse_time(block.created_at) if ttl is not None and block.created_at else None
    if ttl is None or block_time is None:
        return None
    now = (parse_time(rules.now) if rules.now else None) or datetime.now(UTC)
    return "expired" if (now - block_time).total_seconds() > ttl else None
