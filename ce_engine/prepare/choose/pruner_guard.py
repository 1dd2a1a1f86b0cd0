"""The one way in: every block is put before the pruner, and what it answers is checked before it is told (A-11)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ce_engine.config import RuntimeConfig
from ce_engine.ports.pruner import Pruner
from ce_engine.prepare.choose.prune import GreedyPriorityPruner, excluded
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import Priority
from ce_engine.schema.pruning import PruneBudget, PruneResult, PruneRules
from ce_engine.schema.report import PruneDecision


Price = Callable[[ContextBlock], int]
"""What a block costs with the text that it has now, in tokens."""


def is_cut(decision: PruneDecision) -> bool:
    """Whether there was no room for a block, or not for the whole of it."""
    return decision.action == "degraded" or decision.reason.startswith("over_")


_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""A reason is stored with its decision, and must not tell what was said."""


@dataclass(frozen=True, slots=True)
class BlockFate:
    """What becomes of a block; `text` goes out in the place of its own where the pruner shortened it."""

    decision: PruneDecision
    text: str | None = None

    @property
    def stays(self) -> bool:
        return self.decision.action != "dropped"


class BlockChooser:
    """Puts the blocks of one call before its pruner, under the rules of the configuration.

    Tiers bound what all of them together may have (A-17). What goes out is what the report says, whatever
    the pruner says of it: a shorter text counts for what it costs, what must be kept is kept, and of
    what is kept beyond the room, the tiers or the rules the default pruner takes out the least.
    """

    def __init__(self, pruner: Pruner, config: RuntimeConfig, now: str | None) -> None:
        prune = config.prune
        self.must = frozenset(prune.must_keep_priorities)
        self._pruner = pruner
        self._tiers = dict(config.budget.tier_tokens or {})
        self._rules = PruneRules(
            tuple(prune.must_keep_priorities),
            dict(prune.ttl_seconds or {}) or None,
            now,
            frozenset(prune.exclude_sensitivity),
        )

    @property
    def keeps_all(self) -> bool:
        """Whether it is known without asking that what has room stays: no rules, and a pruner of ours."""
        rules = self._tiers or self._rules.ttl_seconds or self._rules.exclude_sensitivity
        return not rules and bool(getattr(self._pruner, "keeps_all", False))

    @property
    def has_tiers(self) -> bool:
        return bool(self._tiers)

    def choose(
        self, blocks: Sequence[ContextBlock], room: int, price: Price
    ) -> dict[str, BlockFate]:
        """What becomes of each block, by its id.

        Args:
            blocks: least wanted first; of several with one id the first counts.
            room: tokens that they may have together.
            price: what a block costs with another text; nothing is shorter that costs as much as before.
        """
        if not blocks:
            return {}
        own: dict[str, ContextBlock] = {}
        for block in blocks:
            own.setdefault(block.block_id, block)
        copies = [block.model_copy() for block in own.values()]  # it may change what it is shown
        budget = PruneBudget(max(0, room), dict(self._tiers) or None)
        answer = self._pruner.prune(copies, budget, self._rules)
        kept_blocks = self._select_blocks(own, answer, price)
        broken = self._breaks(kept_blocks.values(), max(0, room))
        if broken:
            checked = GreedyPriorityPruner().prune([*kept_blocks.values()], budget, self._rules)
            kept_blocks = {block.block_id: block for block in checked.kept}
            answer.decisions = [*answer.decisions, *checked.decisions]
        for block in kept_blocks.values():
            if block.priority in self._tiers and block.priority not in self.must:
                self._tiers[block.priority] -= block.token_estimate
        return self._fates(own, kept_blocks, _reasons(answer.decisions))

    def _select_blocks(
        self, own: Mapping[str, ContextBlock], answer: PruneResult, price: Price
    ) -> dict[str, ContextBlock]:
        """The blocks that stay, in their order, with the texts that go out."""
        answered = {block.block_id: block for block in reversed(answer.kept)}
        kept_blocks: dict[str, ContextBlock] = {}
        for name, block in own.items():
            text = answered[name].content if name in answered else ""
            if text.strip() and text != block.content:
                short = block.model_copy(update={"content": text})
                short.token_estimate = price(short)
                is_shorter = short.token_estimate < block.token_estimate
                kept_blocks[name] = short if is_shorter else block
            elif (name in answered and text == block.content) or block.priority in self.must:
                kept_blocks[name] = block
        return kept_blocks

    def _breaks(self, kept_blocks: Iterable[ContextBlock], room: int) -> bool:
        """Whether more stays than may."""
        spent: Counter[Priority] = Counter()
        for block in kept_blocks:
            if block.priority in self.must:
                room -= block.token_estimate
                continue
            if excluded(block, self._rules):
                return True
            spent[block.priority] += block.token_estimate
        over = any(count > self._tiers.get(tier, count) for tier, count in spent.items())
        return over or (bool(spent) and spent.total() > max(0, room))

    def _fates(
        self,
        own: Mapping[str, ContextBlock],
        kept_blocks: Mapping[str, ContextBlock],
        reasons: Mapping[tuple[str, str], str],
    ) -> dict[str, BlockFate]:
        fates: dict[str, BlockFate] = {}
        for name, block in own.items():
            stays = kept_blocks.get(name)
            text = stays.content if stays is not None and stays.content != block.content else None
            if stays is None:
                action, why = "dropped", "not_chosen"
            elif text is not None:
                action, why = "degraded", "shorter"
            else:
                action, why = "kept", "must" if block.priority in self.must else "fits"
            decision = PruneDecision(
                block_id=name,
                action=action,
                reason=reasons.get((name, action), why),
                token_estimate=(stays or block).token_estimate,
            )
            fates[name] = BlockFate(decision, text)
        return fates


def _reasons(decisions: Iterable[PruneDecision]) -> dict[tuple[str, str], str]:
    """Why, by block and action, where it is told in a word."""
    return {
        (decision.block_id, decision.action): decision.reason
        for decision in decisions
        if _WORD.fullmatch(decision.reason)
    }
