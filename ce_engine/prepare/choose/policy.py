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
        most: share of the room that may be taken by what is brought back, where a cut begins anew.
        free: share of the room that a cut leaves free which goes on where the one before ended.
        lossless: share of the room that must be free where nothing but the forms of results changes.
        share: share of the room that a new question may take for what it needs, whatever else is there.
        saved: so many times its room a session must have saved before a question that goes back may have all that is free,
            and the cut moves for it.
        may_go_back: of the score of the nearest of the newest messages, what another one needs so that a question may
            go back to it.
        filled: of the room that is free, what such a question may take.
        refilled: the same where a cut moves.
        near: of the score of the nearest message that goes out, what another one needs to be added to a prefix.
        nearest: so many pieces come back for a question, if there is room, whatever the session has saved.
        nearest_in_debt: the same where its calls have cost more than without us.
        nearest_behind_cut: the same there, behind a cut that stands, for a question that is not seen to go back.
    """

    name: str
    makes_room: bool
    low_water: float = 1.0
    most: float = 1.0
    free: float = 0.0
    lossless: float = 0.0
    share: float = 1.0
    saved: float = 0.0
    may_go_back: float = 0.75
    filled: float = 0.75
    refilled: float = 0.5
    near: float = 0.85
    nearest: int = 8
    nearest_in_debt: int = 4
    nearest_behind_cut: int = 1


CHAT = CutPolicy("chat", makes_room=True, low_water=0.4)
"""A talk: chosen once a question, which gets its room. What a cut leaves is sent in full, and what it leaves free lasts
for some turns."""

TOOLS = CutPolicy(
    "tools",
    makes_room=False,
    low_water=0.0,
    most=0.42,
    free=0.25,
    lossless=0.4,
    share=0.1,
    saved=4.0,
    near=1.2,
)
"""An agent with tools: many calls a question, all behind the same prefix. What is cut comes back as values, for later
calls need them. The next cut goes on where the one before ended, so that its values stay where they were sent; where
that leaves too little room, it begins anew, and goes deep."""

ANEW = CutPolicy("anew", makes_room=True)
"""`placement="seed"`, and lines without a question: chosen in every call."""


def policy(*, stays: bool, uses_tools: bool) -> CutPolicy:
    """The policy of a line: whether a pin can stand before its question, and whether it has tool calls."""
    if not stays:
        return ANEW
    return TOOLS if uses_tools else CHAT
