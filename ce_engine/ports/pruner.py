"""The interface of what chooses among blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ce_engine.schema.document import ContextBlock
from ce_engine.schema.pruning import PruneBudget, PruneResult, PruneRules


class Pruner(Protocol):
    """Chooses what goes out."""

    def prune(
        self, blocks: Sequence[ContextBlock], budget: PruneBudget, rules: PruneRules | None = None
    ) -> PruneResult:
        """Choose among the blocks (A-11); they are given oldest first, facts and rules least wanted first.

        It is asked several times a call: for rules by their kinds, settings, state, and for the rest.
        A block that it keeps with another, shorter `content` goes out so (`degraded`), for what that costs.
        Blocks whose priority must be kept are never dropped, even over the budget; the rest fit into
        what those leave. Kept blocks keep their order. There is one decision for every block given.
        Pure and synchronous.
        """
        ...
