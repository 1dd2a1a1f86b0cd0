"""Where the messages of a session went, turn by turn: out as they are, shortened, quoted, or left out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
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


QUOTED_REST = "quoted_rest"
"""Of a text in which something is looked for: other sentences of it were quoted, and not those that have it."""

FOUND = "found"
"""Of a document that was found for a turn's call: the app may have put it into its own prompt, which is never stored."""

FATES = {
    SENT: "as a message",
    SHORTENED: "shortened",
    QUOTED: "quoted",
    QUOTED_PART: "quoted in part",
    QUOTED_REST: "quoted in part, without it",
    FOUND: "found for the call",
    LEFT_OUT: "left out",
}
"""What may become of a message in a turn, in words."""

_NOT_SENT = frozenset({LEFT_OUT, QUOTED_REST})

THERE = frozenset(FATES) - {LEFT_OUT}
"""The fates of what went out in some way."""

LEFT = frozenset({LEFT_OUT, QUOTED, QUOTED_PART, QUOTED_REST})
"""The fates of what goes out as no message of its own."""


@dataclass(frozen=True, slots=True)
class Stay:
    """What became of a message in some turns: its fate, and the first and last of each stretch of them."""

    fate: str
    stretches: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a message went: the turn that had it first, from 1, and what became of it in all that had it.

    `lanes` are those that had it, where the session has others: a stretch tells of the turns of these alone. They are
    among `turns`, in order; `None` where it tells of all.
    """

    first: int
    stays: tuple[Stay, ...]
    lanes: tuple[str, ...] = ()
    turns: Sequence[int] | None = field(default=None, compare=False, repr=False)

    def turns_as(self, fates: AbstractSet[str]) -> list[int]:
        """The turns in which one of these fates became of it, in order."""
        numbers = set[int]()
        for stay in self.stays:
            for first, last in stay.stretches if stay.fate in fates else ():
                numbers.update(self._between(first, last))
        return sorted(numbers)

    def stretches_of(self, turns: Collection[int]) -> list[tuple[int, int]]:
        """Some of the turns that it tells of, in stretches."""
        if self.turns is None:
            return stretches_of(turns)
        places = (bisect_left(self.turns, turn) for turn in turns)
        return [(self.turns[first], self.turns[last]) for first, last in stretches_of(places)]

    def tells_of(self, turn: int) -> bool:
        """Whether a stretch may tell of a turn: it is one of a lane that had it."""
        return self.turns is None or bool(self._between(turn, turn))

    def _between(self, first: int, last: int) -> Sequence[int]:
        if self.turns is None:
            return range(first, last + 1)
        return self.turns[bisect_left(self.turns, first) : bisect_right(self.turns, last)]


@dataclass(frozen=True, slots=True)
class Absence:
    """Since which turns a message did not go out: as one of its own, and in any way, quoted neither.

    `unseen` is `None` where it stands quoted.
    """

    since: int
    unseen: int | None


def fate_in(where: Whereabouts, turn: int) -> str | None:
    """What became of a message in a turn; `None` where that had it not."""
    if not where.tells_of(turn):
        return None
    fates = (stay.fate for stay in where.stays if any(a <= turn <= b for a, b in stay.stretches))
    return next(fates, None)


def absence(where: Whereabouts, turn: int) -> Absence | None:
    """Since when a message does not go out, up to a turn; `None` where it does there as one of its own."""
    since = _since(where, turn, LEFT)
    return None if since is None else Absence(since, _since(where, turn, frozenset({LEFT_OUT})))


def _since(where: Whereabouts, turn: int, fates: frozenset[str]) -> int | None:
    """The first turn of the last ones in which all that became of a message was one of these."""
    others, own = (
        [
            stretch
            for stay in where.stays
            if (stay.fate in fates) == is_among
            for stretch in stay.stretches
        ]
        for is_among in (False, True)
    )
    last = max((min(end, turn) for first, end in others if first <= turn), default=0)
    begun = [first for first, _ in own if last < first <= turn]
    return min(begun, default=None)


def evidence_whereabouts(
    ids: Iterable[str], document: SessionDocument, turns: Sequence[TurnRow]
) -> dict[str, Whereabouts]:
    """Where pieces of evidence went: a tool's result with its message, another with what was put in."""
    evidence_ids = frozenset(ids)
    results = {
        message.message_id or "": ref.evidence_id
        for message in document.session.messages
        if message.role is Role.TOOL
        for ref in message.refs or ()
        if ref.evidence_id in evidence_ids
    }
    by_message = whereabouts(results, document, turns)
    by_evidence = {results[name]: where for name, where in by_message.items()}
    rest = evidence_ids - by_evidence.keys()
    shown_to = {
        message.message_id or "": rest.intersection(ref.evidence_id for ref in message.refs)
        for message in document.session.messages
        if message.role is Role.ASSISTANT and message.refs
    }
    return _put_in(rest, turns, shown_to) | by_evidence


def _put_in(
    evidence_ids: frozenset[str],
    turns: Sequence[TurnRow],
    shown_to: Mapping[str, AbstractSet[str]],
) -> dict[str, Whereabouts]:
    """The turns in which evidence that is no message stands in what was put in, or was found for the call (`shown_to`, by answers)."""
    stretches, after = dict[str, dict[str, list[tuple[int, int]]]](), PinsAfter(turns)
    for number, row in enumerate(turns, start=1):
        quoted = evidence_ids.intersection(row.report.get("injected_evidence_ids", ()))
        pieces = quoted_pieces(row, after.of(row)) if quoted else {}
        for name in quoted | shown_to.get(row.answer_message_id or "", frozenset()):
            of_quoted = QUOTED_PART if pieces.get(name) else QUOTED
            fate = of_quoted if name in quoted else FOUND
            spans = stretches.setdefault(name, {}).setdefault(fate, [])
            goes_on = bool(spans) and spans[-1][1] == number - 1
            first = spans.pop()[0] if goes_on else number
            spans.append((first, number))
    return {
        name: Whereabouts(
            min(spans[0][0] for spans in by_fate.values()),
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
        if is_meant and (turn_places := places.read_turn(row)) is not None:
            history.add(number, row.lane, places.pieces(*turn_places))
    where_of: dict[str, Whereabouts] = {}
    for (begin, end), where in history.group_places():
        where_of |= dict.fromkeys(places.ids[begin:end], where)
    return where_of


class _History:
    """What became of places, lane by lane: only where it changed from one turn of the lane to its next."""

    def __init__(self) -> None:
        self._turns: dict[str, list[int]] = {}
        self._together: dict[frozenset[str], list[int]] = {}
        self._last: dict[str, Sequence[Piece]] = {}
        self._changes: list[tuple[int, int, int, str, str | None]] = []

    def add(self, turn: int, lane: str, pieces: Sequence[Piece]) -> None:
        """Take in a turn; its pieces have all places, in order."""
        self._turns.setdefault(lane, []).append(turn)
        for begin, end, before, fate in _side_by_side(self._last.get(lane, ()), pieces):
            if before != fate:
                self._changes.append((begin, end, turn, lane, fate))
        self._last[lane] = pieces

    def group_places(self) -> Iterator[tuple[tuple[int, int], Whereabouts]]:
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
        stretches = [stretch for lane in lanes for stretch in self._stretches(lane, changes)]
        if len(lanes) > 1:  # their turns may take turns
            stretches = self._in_order(stretches)
        if not stretches:
            return None
        stays: dict[str, list[tuple[int, int]]] = {}
        for fate, first, last, _ in stretches:
            stays.setdefault(fate, []).append((first, last))
        all_stays = tuple(Stay(fate, tuple(stays[fate])) for fate in FATES if fate in stays)
        names = tuple(sorted(lanes)) if lanes < self._turns.keys() else ()
        first = min(first for _, first, _, _ in stretches)
        return Whereabouts(first, all_stays, names, self._turns_of(frozenset(lanes)))

    def _turns_of(self, lanes: frozenset[str]) -> Sequence[int]:
        if len(lanes) == 1:
            return self._turns[next(iter(lanes))]
        if lanes not in self._together:
            self._together[lanes] = sorted(turn for lane in lanes for turn in self._turns[lane])
        return self._together[lanes]

    def _stretches(
        self, lane: str, changes: Sequence[tuple[int, str, str | None]]
    ) -> Iterator[tuple[str, int, int, str]]:
        """The stretches of a lane's turns: fate, first, last, lane."""
        own = [(turn, fate) for turn, its_lane, fate in changes if its_lane == lane]
        turns = self._turns[lane]
        for (turn, fate), following in zip_longest(own, (start for start, _ in own[1:])):
            end = bisect_left(turns, following) if following else len(turns)
            if fate is not None:
                yield fate, turn, turns[end - 1], lane

    def _in_order(
        self, stretches: Sequence[tuple[str, int, int, str]]
    ) -> list[tuple[str, int, int, str]]:
        """The stretches of several lanes, parted where a turn of another one says something else, or had it not."""
        single: dict[int, str | None] = {
            turn: None for lane in {lane for *_, lane in stretches} for turn in self._turns[lane]
        }
        for fate, first, last, lane in stretches:
            turns = self._turns[lane]
            own_turns = turns[bisect_left(turns, first) : bisect_right(turns, last)]
            single |= dict.fromkeys(own_turns, fate)
        parts: list[tuple[str, int, int, str]] = []
        for fate_, run in groupby(sorted(single.items()), key=itemgetter(1)):
            numbers = [turn for turn, _ in run]
            if fate_ is not None:
                parts.append((fate_, numbers[0], numbers[-1], ""))
        return parts


def turns_sent(texts: Iterable[Whereabouts]) -> list[tuple[int, int]]:
    """The turns in which any of some texts went out, whole or with what is looked for, in stretches."""
    fates = THERE - _NOT_SENT
    return stretches_of({turn for text in texts for turn in text.turns_as(fates)})


def stretches_of(turns: Iterable[int]) -> list[tuple[int, int]]:
    """Turns that follow one another, each stretch from its first to its last."""
    stretches: list[tuple[int, int]] = []
    for turn in sorted(turns):
        if stretches and stretches[-1][1] == turn - 1:
            stretches[-1] = (stretches[-1][0], turn)
        else:
            stretches.append((turn, turn))
    return stretches


def _side_by_side(
    earlier: Sequence[Piece], later: Sequence[Piece]
) -> Iterator[tuple[int, int, str | None, str | None]]:
    """Where two divisions of the same places say something, both: what the first is not there for is `None`."""
    at = 0
    for begin, end, fate in later:
        start = begin
        while start < end:
            while at < len(earlier) and earlier[at][1] <= start:
                at += 1
            edge = min(end, earlier[at][1]) if at < len(earlier) else end
            yield start, edge, earlier[at][2] if at < len(earlier) else None, fate
            start = edge


__all__ = [
    "FATES",
    "FOUND",
    "LEFT_OUT",
    "QUOTED",
    "QUOTED_PART",
    "QUOTED_REST",
    "SENT",
    "SHORTENED",
    "THERE",
    "Absence",
    "Stay",
    "Whereabouts",
    "absence",
    "evidence_whereabouts",
    "fate_in",
    "stretches_of",
    "turns_sent",
    "whereabouts",
]
