"""The rule for what is brought back, with a name for each mode (decisions 7 and 8)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CutPolicy:
    """How deep a cut goes, and whose room what is brought back may take.

    Attributes:
        name: of the mode.
        makes_room: a cut keeps a reserve free for what questions need, and what stands before earlier ones
            leaves, the newest first; else both stay until there is no room for them.
        low_water: share of the room that messages keep at most when a cut moves; in a talk also what comes back
            with them, but for a question that goes back to what was said earlier.
        results: share of what a cut frees that the values of results that are gone may take.
        most: share of the room that may be taken by all that is brought back.
        asked: share of the room that a new question may take for what it needs, whatever else is there.
    """

    name: str
    makes_room: bool
    low_water: float = 1.0
    results: float = 0.0
    most: float = 1.0
    asked: float = 1.0


CHAT = CutPolicy("chat", makes_room=True, low_water=0.4)
"""A talk: chosen once a question, which gets its room. What a cut leaves is sent in full, and what it leaves free lasts
for some turns."""

TOOLS = CutPolicy("tools", makes_room=False, low_water=0.1, results=0.28, most=0.36, asked=0.1)
"""An agent with tools: many calls a question, all behind the same prefix. A new cut is paid in full, so that it goes
deep, and what comes back is paid by what it frees: the values of results, for later calls need them."""

ANEW = CutPolicy("anew", makes_room=True)
"""`placement="seed"`, and lines without a question: chosen in every call."""


def policy(*, stays: bool, uses_tools: bool) -> CutPolicy:
    """The policy of a line: whether a pin can stand before its question, and whether it has tool calls."""
    if not stays:
        return ANEW
    return TOOLS if uses_tools else CHAT
