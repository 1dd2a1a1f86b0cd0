"""What a caller is given of the shared context, by its role in a team of agents (E-05)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ce_engine.prepare.blocks.material import LAYERS, Material


_RULES = frozenset({"framework__context"})
_ON_REQUEST = {
    "worker": frozenset({"knowledge__context"}),
    "planner": frozenset({"experience__context", "knowledge__context"}),
    "reducer": frozenset({"experience__context", "knowledge__context"}),
}


@dataclass(frozen=True, slots=True)
class InputShare:
    """What one call may have.

    Attributes:
        sections: keys of `LAYERS` whose materials go out.
        history: stored messages may be brought in (`checkpoint_messages`).
        recall: relevant messages and evidence may be brought in (`knowledge__context`).
    """

    sections: frozenset[str]
    history: bool
    recall: bool

    def of(self, materials: Iterable[Material]) -> list[Material]:
        """The materials that go out, in their order."""
        return [material for material in materials if material.section in self.sections]


def share_of(role: str, want: Collection[str] = (), *, enabled: bool = True) -> InputShare:
    """The share of a caller (E-05).

    Args:
        role: `agent` (sequential, hierarchical, ReAct) has all; map-reduce's `worker`, `planner` and
            `reducer` have no history, the rules, and on request what their work may need.
        want: the sections that the caller asks for; what its role may not have is not given.
        enabled: the switch, `RuntimeConfig.enable_share_context`; off, nothing goes out.
    """
    if not enabled:
        return InputShare(frozenset(), history=False, recall=False)
    if role == "agent":
        return InputShare(frozenset(LAYERS), history=True, recall=True)
    sections = _RULES | (_ON_REQUEST[role] & frozenset(want))
    return InputShare(sections, history=False, recall="knowledge__context" in sections)
