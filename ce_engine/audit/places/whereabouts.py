"""Where the messages of a session went, turn by turn: out as they are, shortened, quoted, or left out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, zip_longest
from operator import itemgetter

from ce_engine.audit.places.message_places import (
    LEFT_OUT,
    QUOTED,
    QUOTED_PART,
    SENT,
    SHORTENED,
    MessagePlaces,
    Piece,
)
from ce_engine.audit.places.quoted_pieces import PinsAfter, quoted_pieces
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.rows import TurnRow


FATES = {
    SENT: "as a message",
    SHORTENED: "shortened",
    QUOTED: "quoted",
    QUOTED_PART: "quoted in part",
    LEFT_OUT: "left out",
}
"""What may become of a message in a turn, in words."""

LEFT = frozenset({LEFT_OUT, QUOTED, QUOTED_PART})
"""The fates of what goes out as no message of its own."""


@dataclass(frozen=True, slots=True)
class Stay:
    """What became of a message in some turns: its fate, and the first and last of each stretch of them."""

    fate: str
    stretches: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a message went: the turn that had it first, from 1, and what became of it in all that had it.

    `lanes` are those that had it, where the session has others: a stretch tells of the turns of these alone.
    """

    first: int
    stays: tuple[Stay, ...]
    lanes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Absence:
    """Since which turns a message did not go out: as one of its own, and in any way, quoted neither.

    `unseen` is `None` where it stands quoted.
    """

    since: int
    unseen: int | None


def absence(where: Whereabouts, turn: int) -> Absence | None:
    """Since when a message does not go out, up to a turn; `None` where it does there as one of its own."""
    since = _since(where, turn, LEFT)
    return None if since is None else Absence(since, _since(where, turn, frozenset({LEFT_OUT})))


def _since(where: Whereabouts, turn: int, gone: frozenset[str]) -> int | None:
    """The first turn of the last ones in which all that became of a message was one of these."""
    others, own = (
        [each for stay in where.stays if (stay.fate in gone) == is_gone for each in stay.stretches]
        for is_gone in (False, True)
    )
    last = max((min(end, turn) for first, end in others if first <= turn), default=0)
    begun = [first for first, _ in own if last < first <= turn]
    return min(begun, default=None)


def evidence_whereabouts(
    ids: Iterable[str], document: SessionDocument, turns: Sequence[TurnRow]
) -> dict[str, Whereabouts]:
    """Where pieces of evidence went: a tool's result with its message, another with what was put in."""
    wanted = frozenset(ids)
    results = {
        message.message_id or "": ref.evidence_id
        for message in document.session.messages
        if message.role is Role.TOOL
        for ref in message.refs or ()
        if ref.evidence_id in wanted
    }
    found = whereabouts(results, document, turns)
    made = {results[name]: where for name, where in found.items()}
    return _put_in(wanted - made.keys(), turns) | made


def _put_in(wanted: frozenset[str], turns: Sequence[TurnRow]) -> dict[str, Whereabouts]:
    """The turns in which evidence that is no message stands in what was put in."""
    stretches, after = dict[str, dict[str, list[tuple[int, int]]]](), PinsAfter(turns)
    for number, row in enumerate(turns, start=1):
        names = wanted.intersection(row.report.get("injected_evidence_ids", ()))
        pieces = quoted_pieces(row, after.of(row)) if names else {}
        for name in names:
            fate = QUOTED_PART if pieces.get(name) else QUOTED
            found = stretches.setdefault(name, {}).setdefault(fate, [])
            goes_on = bool(found) and found[-1][1] == number - 1
            first = found.pop()[0] if goes_on else number
            found.append((first, number))
    return {
        name: Whereabouts(
            min(each[0][0] for each in by_fate.values()),
            tuple(Stay(fate, tuple(by_fate[fate])) for fate in FATES if fate in by_fate),
        )
        for name, by_fate in stretches.items()
    }


def whereabouts(
    ids: Iterable[str],
    document: SessionDocument,
    turns: Sequence[TurnRow],
    lane: str | None = None,
) -> dict[str, Whereabouts]:
    """Where messages went, by the decisions that are stored of each turn.

    Turns without a stored report, and calls of helpers, tell nothing. What it costs follows what became of the
    messages, and not how many messages each of the turns had.

    Args:
        ids: of the messages, in the order of their list.
        document: of the session.
        turns: all of it, oldest first.
        lane: only by the turns of this one.
    """
    places, history = MessagePlaces(ids, document, turns), _History()
    for number, row in enumerate(turns, start=1):
        is_meant = lane is None or row.lane == lane
        if is_meant and (told := places.told(row)) is not None:
            history.add(number, row.lane, places.pieces(*told))
    made: dict[str, Whereabouts] = {}
    for (begin, end), where in history.told():
        made |= dict.fromkeys(places.ids[begin:end], where)
    return made


class _History:
    """What became of places, lane by lane: only where it changed from one turn of the lane to its next."""

    def __init__(self) -> None:
        self._turns: dict[str, list[int]] = {}
        self._last: dict[str, Sequence[Piece]] = {}
        self._changes: list[tuple[int, int, int, str, str | None]] = []

    def add(self, turn: int, lane: str, pieces: Sequence[Piece]) -> None:
        """Take in a turn; its pieces have all places, in order."""
        self._turns.setdefault(lane, []).append(turn)
        for begin, end, before, fate in _side_by_side(self._last.get(lane, ()), pieces):
            if before != fate:
                self._changes.append((begin, end, turn, lane, fate))
        self._last[lane] = pieces

    def told(self) -> Iterator[tuple[tuple[int, int], Whereabouts]]:
        """Neighbouring places of which all turns say the same, and where their messages went."""
        begun: dict[int, list[int]] = {}
        ended: dict[int, list[int]] = {}
        for at, (begin, end, *_) in enumerate(self._changes):
            begun.setdefault(begin, []).append(at)
            ended.setdefault(end, []).append(at)
        there: set[int] = set()
        edges = sorted(begun.keys() | ended.keys())
        for begin, end in pairwise(edges):
            there.difference_update(ended.get(begin, ()))
            there.update(begun.get(begin, ()))
            # In the order of their turns, in which they were noted.
            where = self._where([self._changes[at][2:] for at in sorted(there)])
            if where is not None:
                yield (begin, end), where

    def _where(self, changes: Sequence[tuple[int, str, str | None]]) -> Whereabouts | None:
        lanes = {lane for _, lane, _ in changes}
        found = [each for lane in lanes for each in self._stretches(lane, changes)]
        if len(lanes) > 1:  # their turns may take turns
            found = self._in_order(found)
        if not found:
            return None
        stays: dict[str, list[tuple[int, int]]] = {}
        for fate, first, last, _ in found:
            stays.setdefault(fate, []).append((first, last))
        made = tuple(Stay(fate, tuple(stays[fate])) for fate in FATES if fate in stays)
        names = tuple(sorted(lanes)) if lanes < self._turns.keys() else ()
        return Whereabouts(min(first for _, first, _, _ in found), made, names)

    def _stretches(
        self, lane: str, changes: Sequence[tuple[int, str, str | None]]
    ) -> Iterator[tuple[str, int, int, str]]:
        """The stretches of a lane's turns: fate, first, last, lane."""
        own = [(turn, fate) for turn, its, fate in changes if its == lane]
        turns = self._turns[lane]
        for (turn, fate), following in zip_longest(own, (each for each, _ in own[1:])):
            end = bisect_left(turns, following) if following else len(turns)
            if fate is not None:
                yield fate, turn, turns[end - 1], lane

    def _in_order(
        self, found: Sequence[tuple[str, int, int, str]]
    ) -> list[tuple[str, int, int, str]]:
        """The stretches of several lanes, parted where a turn of another one says something else, or had it not."""
        single: dict[int, str | None] = {
            turn: None for lane in {lane for *_, lane in found} for turn in self._turns[lane]
        }
        for fate, first, last, lane in found:
            turns = self._turns[lane]
            told = turns[bisect_left(turns, first) : bisect_right(turns, last)]
            single |= dict.fromkeys(told, fate)
        made: list[tuple[str, int, int, str]] = []
        for fate_, run in groupby(sorted(single.items()), key=itemgetter(1)):
            numbers = [turn for turn, _ in run]
            if fate_ is not None:
                made.append((fate_, numbers[0], numbers[-1], ""))
        return made


def _side_by_side(
    one: Sequence[Piece], other: Sequence[Piece]
) -> Iterator[tuple[int, int, str | None, str | None]]:
    """Where two divisions of the same places say something, both: what the first is not there for is `None`."""
    at = 0
    for begin, end, fate in other:
        start = begin
        while start < end:
            while at < len(one) and one[at][1] <= start:
                at += 1
            edge = min(end, one[at][1]) if at < len(one) else end
            yield start, edge, one[at][2] if at < len(one) else None, fate
            start = edge


__all__ = [
    "FATES",
    "LEFT_OUT",
    "QUOTED",
    "QUOTED_PART",
    "SENT",
    "SHORTENED",
    "Absence",
    "Stay",
    "Whereabouts",
    "absence",
    "evidence_whereabouts",
    "whereabouts",
]
