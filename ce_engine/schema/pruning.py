"""What a pruner is given and what it answers, as values (A-11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import Priority
from ce_engine.schema.report import PruneDecision


@dataclass(slots=True)
class PruneBudget:
    """Tokens for the blocks given; `tier_tokens` bounds priorities inside it."""

    max_tokens: int
    tier_tokens: Mapping[Priority, int] | None = None


@dataclass(slots=True)
class PruneRules:
    """`ttl_seconds` by priority, against `now` (ISO 8601); blocks with a sensitivity in `exclude_sensitivity` go."""

    must_keep_priorities: Sequence[Priority] = (Priority.MUST,)
    ttl_seconds: Mapping[Priority, int] | None = None
    now: str | None = None
    exclude_sensitivity: frozenset[str] = frozenset()


@dataclass(slots=True)
class PruneResult:
    """What stays, what goes, and a decision for each block."""

    kept: list[ContextBlock] = field(default_factory=list)
    dropped: list[ContextBlock] = field(default_factory=list)
    decisions: list[PruneDecision] = field(default_factory=list)
