"""What of a turn's messages went out otherwise than in its lane's turn before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ce_engine.audit.places.whereabouts import (
    LEFT_OUT,
    QUOTED,
    QUOTED_PART,
    SENT,
    SHORTENED,
    Whereabouts,
    fate_in,
)


TITLES = {
    "new": "new, and out as a message",
    "out": "left out now",
    "unquoted": "no more quoted",
    "quoted": "quoted now",
    "back": "out as a message again",
    "shortened": "shortened now",
}
"""Kinds of changes, in words."""

_MESSAGE, _QUOTE = (SENT, SHORTENED), (QUOTED, QUOTED_PART)


@dataclass(frozen=True, slots=True)
class Change:
    """A kind of change, a key of `TITLES`, and the ids of the messages that changed so, in their order."""

    kind: str
    ids: list[str]


def turn_changes(where: Mapping[str, Whereabouts], turn: int, before: int) -> list[Change]:
    """What became of messages in a turn and had not in the one before.

    Args:
        where: where each went, by the turns of one lane.
        turn: the turn's number.
        before: that of the lane's turn before.
    """
    ids_by_kind: dict[str, list[str]] = {}
    for name, history in where.items():
        kind = _kind(fate_in(history, before), fate_in(history, turn))
        if kind:
            ids_by_kind.setdefault(kind, []).append(name)
    return [Change(kind, ids_by_kind[kind]) for kind in TITLES if kind in ids_by_kind]


def _kind(old: str | None, now: str | None) -> str:
    """Of a change its kind; `""` of none."""
    if now == old or now is None:
        return ""
    if now == LEFT_OUT:
        return "" if old is None else "unquoted" if old in _QUOTE else "out"
    if now in _QUOTE:
        return "" if old in _QUOTE else "quoted"
    if old in _MESSAGE:
        return "shortened" if now == SHORTENED else "back"
    return "new" if old is None else "back"


__all__ = ["TITLES", "Change", "turn_changes"]
