"""What was brought in before a question stays there, so that the prefix stays the same: values that a lane remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ce_engine.prepare.message_groups import MessageGroup
from ce_engine.schema.report import PruneDecision


Ref = tuple[str, tuple[int, ...]]
"""A candidate's id, and the sentences of it that went in; all of it where none are named."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A text that stands before a message of the line, and what it renders.

    It says that `steps` of its turn are left out: of each the evidence of its results. As it went out, its live values
    took `live` tokens more than their placeholders: it keeps them, or the prefix would end.
    """

    text: str
    locale: str
    refs: tuple[Ref, ...]
    evidence_ids: tuple[str, ...] = ()
    steps: tuple[tuple[str, ...], ...] = ()
    live: int = 0

    @property
    def before(self) -> str:
        """As it stands before the message's own text."""
        return f"{self.text}\n\n"


Pins = Mapping[str, Pin]
"""Pins by the message ids that they stand before."""


def in_line(pins: Pins, groups: Sequence[MessageGroup]) -> dict[str, Pin]:
    """The pins whose messages stand in the line, in its order."""
    anchors = (group.anchor for group in groups) if pins else ()
    return {anchor: pins[anchor] for anchor in anchors if anchor in pins}


@dataclass(slots=True)
class HeldPins:
    """A lane's pins in one call, in the order of its line: they stay where they are while they fit.

    `costs` are their tokens; `released` says whether one had to go.
    """

    pins: dict[str, Pin] = field(default_factory=dict)
    costs: dict[str, int] = field(default_factory=dict)
    released: bool = False
    _left: list[PruneDecision] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(self.costs.values())

    @property
    def ids(self) -> set[str]:
        """The candidates that are rendered, by their ids."""
        return {name for pin in self.pins.values() for name, _ in pin.refs}

    def decisions(self) -> list[PruneDecision]:
        """One for each pin that stays, by the first of what it renders; and those on what went with its message."""
        stays = [
            PruneDecision(
                block_id=pin.refs[0][0],
                action="kept",
                reason="there_already",
                count=len(pin.refs),
                token_estimate=self.costs[name],
            )
            for name, pin in self.pins.items()
            if name in self.costs and pin.refs
        ]
        return [*stays, *self._left]

    def leave(self, reasons: Mapping[str, str]) -> None:
        """Leave out what stands before messages that do not go out: why, by their ids."""
        for name in reasons.keys() & self.costs.keys():
            tokens, refs = self.costs.pop(name), self.pins.pop(name).refs
            decided_ids = {decision.block_id for decision in self._left}
            decided_ids |= self.ids
            self._left += (
                PruneDecision(
                    block_id=ref,
                    action="dropped",
                    reason=reasons[name],
                    token_estimate=tokens // len(refs),
                )
                for ref, _ in refs
                if ref not in decided_ids
            )

    def fit(self, room: int) -> int:
        """Let the newest go as long as they need more than `room`; return the tokens that are left of it."""
        while self.costs and self.tokens > room:
            self.release()
        return room - self.tokens

    def drop(self, name: str) -> None:
        """Let the one go that stands before a message, if there is one."""
        if name in self.costs:
            del self.costs[name], self.pins[name]

    def release(self) -> int:
        """Let the newest go, for then most of the prefix stays the same; return its tokens."""
        self.released = True
        name, tokens = self.costs.popitem()
        del self.pins[name]
        return tokens
