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
)


TITLES = {
    "new": "new, and out as a message",
    "out": "left out now",
    "unquoted": "no more quoted",
    "gone": "no more given by the app",
    "quoted": "quoted now",
    "back": "out as a message again",
    "shortened": "shortened now",
    "whole": "whole again",
}
"""Kinds of changes, in words."""

_MESSAGE, _QUOTE = (SENT, SHORTENED), (QUOTED, QUOTED_PART)


@dataclass(frozen=True, slots=True)
class Change:
    """A kind of change, a key of `TITLES`, and the ids of the messages that changed so, in their order."""

    kind: str
    ids: list[str]


def turn_changes(fates: Mapping[str, str], before: Mapping[str, str]) -> list[Change]:
    """What became of messages in a turn and had not in the one before.

    Args:
        fates: what became of each in the turn, by its id; those that it had not are not in it.
        before: the same in the lane's turn before.
    """
    ids_by_kind: dict[str, list[str]] = {}
    for name, fate in fates.items():
        if kind := _kind(before.get(name), fate):
            ids_by_kind.setdefault(kind, []).append(name)
    for name, fate in before.items() if fates else ():
        if name not in fates:
            ids_by_kind.setdefault("unquoted" if fate in _QUOTE else "gone", []).append(name)
    return [Change(kind, ids_by_kind[kind]) for kind in TITLES if kind in ids_by_kind]


def _kind(old: str | None, now: str) -> str:
    """Of a change its kind; `""` of none."""
    if now == old:
        return ""
    if now == LEFT_OUT:
        return "" if old is None else "unquoted" if old in _QUOTE else "out"
    if now in _QUOTE:
        return "" if old in _QUOTE else "quoted"
    if old in _MESSAGE:
        return "shortened" if now == SHORTENED else "whole"
    return "new" if old is None else "back"


__all__ = ["TITLES", "Change", "turn_changes"]
