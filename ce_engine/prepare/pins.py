"""What was brought in before a question stays there, so that the prefix stays the same: values that a lane remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ce_engine.prepare.line import Group


Ref = tuple[str, tuple[int, ...]]
"""A candidate's id, and the sentences of it that went in; all of it where none are named."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A text that stands before a message of the line, and what it renders."""

    text: str
    locale: str
    refs: tuple[Ref, ...]
    evidence_ids: tuple[str, ...] = ()

    @property
    def before(self) -> str:
        """As it stands before the message's own text."""
        return f"{self.text}\n\n"


Pins = Mapping[str, Pin]
"""Pins by the message ids that they stand before."""


def in_line(pins: Pins, groups: Sequence[Group]) -> dict[str, Pin]:
    """The pins whose messages stand in the line, in its order."""
    anchors = (group.anchor for group in groups) if pins else ()
    return {anchor: pins[anchor] for anchor in anchors if anchor in pins}
