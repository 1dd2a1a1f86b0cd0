"""What a stored turn says of the messages of a list: which of them it had, and what became of each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from ce_engine.audit.places.history_places import Fate, Histories
from ce_engine.audit.places.quoted_pieces import PinsAfter, quoted_pieces
from ce_engine.audit.places.result_forms import FORMS, NO_FORMS, Forms, ResultForms
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.message_forest import MessageForest
from ce_engine.schema.report import RECALLED
from ce_engine.schema.rows import MessageRow, TurnRow, archive_of
from ce_engine.sessions.view import entry_of


SENT, SHORTENED, QUOTED, LEFT_OUT = "sent", "shortened", "quoted", "left_out"
QUOTED_PART = "quoted_part"
"""What may become of a message in a turn."""

OLDER = "older_tool_result"
OF_RESULTS = FORMS | {OLDER}
"""Reasons for which the results of a group are shorter, and not the call."""

ALONE = frozenset({"orphaned_tool_result", "unanswered_tool_call", "repeated_system_message"})
"""Reasons of decisions on a single message, which stands in no run."""

_KEPT = ("kept", "fits")


Piece = tuple[int, int, str | None]
"""Neighbouring places, from one to before another, and what became of the messages there."""
Quoted = tuple[frozenset[int], frozenset[int]]
"""Places of what is quoted, and of what is quoted in part."""
Told = tuple[
    tuple[tuple[int, int], ...], tuple[tuple[int, str, str], ...], tuple[int, ...], Quoted, Forms
]
"""Of a turn, by places: stretches that it had, decisions with where they begin, those alone, what it quoted, and
the forms of results."""


class MessagePlaces:
    """Messages in the order of a list, and what stored turns say of their places in it.

    What a turn had is stored as the last of some entries and how many go back from there; decisions, as the first
    of those that they are on. Neither costs how long the session is.
    """

    def __init__(
        self, ids: Iterable[str], document: SessionDocument, turns: Sequence[TurnRow]
    ) -> None:
        messages = [m for m in document.session.messages if m.message_id]
        self._log = log = MessageForest()
        for message in messages:  # what recognises them is not needed: their places are
            log.add(entry_of(log, MessageRow(message, key=b"", loose_key=b"", origin="")))
        entries = dict.fromkeys(
            n for message_id in ids if (n := log.by_message_id(message_id)) is not None
        )
        self._nodes = nodes = list(entries)
        self._at = at = {n: place for place, n in enumerate(nodes)}
        self.ids = [log[n].message_id for n in nodes]
        self._before = [_before(log, n) for n in range(len(log))]
        self._depth, self._join = list[int](), list[int]()
        for n, before in enumerate(self._before):
            self._depth.append(1 if before < 0 else self._depth[before] + 1)
            self._join.append(at[n] if n in at else -1 if before < 0 else self._join[before])
        self._begin = [0] * len(nodes)  # of the stretch in which each stands right before the next
        for place in range(1, len(nodes)):
            follows = self._before[nodes[place]] == nodes[place - 1]
            self._begin[place] = self._begin[place - 1] if follows else place
        listed_messages = [messages[n] for n in nodes]
        self._is_result = [message.role is Role.TOOL for message in listed_messages]
        self._results = [place for place, is_one in enumerate(self._is_result) if is_one]
        self._by_evidence = _stored_as(listed_messages)
        self._histories = Histories(log, messages, at, turns)
        self._after = PinsAfter(turns)
        places = {name: place for place, name in enumerate(self.ids)}
        self._forms = ResultForms(listed_messages, places, turns)

    def read_turn(self, row: TurnRow) -> Told | None:
        """What is stored of a turn, by places; `None` where that is nothing."""
        if not (archive := archive_of(row.report)):
            return None
        decided, alone = self._decisions(row.report.get("prune_decisions", ()))
        stretches = [s for run in archive.get("line", ()) for s in self._stretches(*run)]
        if archive.get("bring") and not archive.get("closed"):
            stretches, segments = self._with_history(row.lane, archive, stretches, decided)
        else:
            segments = self._segments(decided)
        ordered = tuple((place, *fate) for place, fate in sorted(segments.items()))
        quoted = self._quoted(quoted_pieces(row, self._after.of(row)))
        return (tuple(sorted(stretches)), ordered, alone, quoted, self._forms.of(row))

    def _decisions(
        self, decisions: Iterable[Mapping[str, Any]]
    ) -> tuple[list[tuple[int, Fate]], tuple[int, ...]]:
        """What was decided on entries and those behind them, and the places of those that stand alone."""
        decided: list[tuple[int, Fate]] = []
        alone: list[int] = []
        for decision in decisions:
            name = decision["block_id"]
            n = None if name.startswith(RECALLED) else self._log.by_message_id(name)
            if n is None or decision["reason"] in FORMS:
                continue
            if decision["reason"] in ALONE:
                alone += [self._at[n]] if n in self._at else []
            else:
                decided.append((n, (decision["action"], decision["reason"])))
        return decided, tuple(alone)

    def _segments(self, decided: Iterable[tuple[int, Fate]]) -> dict[int, Fate]:
        """What was decided, by the places where it begins."""
        begun = ((self._at.get(n, self._join[n] + 1), fate) for n, fate in decided)
        return {place: fate for place, fate in begun if place < len(self._nodes)}

    def _with_history(
        self,
        lane: str,
        archive: Mapping[str, Any],
        listed: Sequence[tuple[int, int]],
        decided: Sequence[tuple[int, Fate]],
    ) -> tuple[list[tuple[int, int]], dict[int, Fate]]:
        """The stretches of a turn that brought earlier talks in, and what was decided, said anew of each stretch.

        What comes in stands before the app's own messages, and in another order than in the session.
        """
        log, find = self._log, self._log.by_message_id
        history = self._histories.of(lane, by_hand=bool(archive.get("by_hand")))
        count, newest = archive.get("messages") or (len(log), "")
        (before, without), last = archive["bring"], find(newest)
        end = find(before) if before else None
        end = len(log) if end is None else end
        own = {n for n, _ in decided if n not in history.position or log.root(n) >= end}
        fate_at = {history.position[n]: fate for n, fate in decided if n not in own}
        open_roots = [n for root_id in without if (n := find(root_id)) is not None]
        newest_entry = count - 1 if last is None else last
        brought_pieces = list(history.pieces(end, newest_entry, open_roots, fate_at))
        segments = self._segments(pair for pair in decided if pair[0] in own)
        begun, ruling = sorted(segments), fate_at[max(fate_at)] if fate_at else _KEPT
        for begin, _ in listed:
            at = bisect_right(begun, begin) - 1
            segments.setdefault(begin, segments[begun[at]] if at >= 0 else ruling)
        segments |= {begin: fate for begin, _, fate in brought_pieces}
        return [*listed, *((begin, last) for begin, last, _ in brought_pieces)], segments

    def _stretches(self, last: str, count: int) -> Iterator[tuple[int, int]]:
        """The places of the entries that go back from the last one, as stretches."""
        n, left = self._log.by_message_id(last), count
        n = -1 if n is None else n
        while n >= 0 and left > 0 and (place := self._join[n]) >= 0:
            left -= self._depth[n] - self._depth[self._nodes[place]]
            begin = max(self._begin[place], place - left + 1)
            if left <= 0:
                return
            yield begin, place + 1
            left -= place + 1 - begin
            n = self._before[self._nodes[begin]]

    def _quoted(self, pieces: Mapping[str, bool]) -> Quoted:
        """The places of what stands in what was put in; of a tool's result its evidence may."""
        whole, part = set[int](), set[int]()
        for name, is_part in pieces.items():
            n = self._log.by_message_id(name)
            if n in self._at:
                (part if is_part else whole).add(self._at[n])
        for name, is_part in pieces.items():  # which is named beside its message, as well
            for place in self._by_evidence.get(name, ()):
                if place not in whole and place not in part:
                    (part if is_part else whole).add(place)
        return frozenset(whole), frozenset(part - whole)

    def pieces(
        self,
        stretches: Sequence[tuple[int, int]],
        segments: Sequence[tuple[int, str, str]],
        alone: Sequence[int],
        quoted: Quoted,
        forms: Forms = NO_FORMS,
    ) -> list[Piece]:
        """What became of the messages of a turn, place by place; `None` of those that it had not."""
        fates = _Fates(segments, frozenset(alone), self._is_result)
        whole, part = quoted
        edges = {0, len(self._nodes), *(edge for stretch in stretches for edge in stretch)}
        single = [*alone, *whole, *part, *self._shorter(segments, forms)]
        edges.update(begin for begin, _, _ in segments)
        edges.update(edge for place in single for edge in (place, place + 1))

        def is_whole(place: int) -> bool:
            at = bisect_right(stretches, (place, len(self._nodes) + 1)) - 1
            return at >= 0 and stretches[at][1] > place and fates.of(place) == SENT

        pieces: list[Piece] = []
        at = 0
        for begin, end in pairwise(sorted(edges)):
            while at < len(stretches) and stretches[at][1] <= begin:
                at += 1
            is_there = at < len(stretches) and stretches[at][0] <= begin
            fate = fates.of(begin) if is_there else None
            if fate in (None, LEFT_OUT):
                fate = QUOTED if begin in whole else QUOTED_PART if begin in part else fate
            elif fate == SENT and self._is_result[begin] and forms.stands(begin, is_whole):
                fate = SHORTENED
            if pieces and pieces[-1][2] == fate:
                pieces[-1] = (pieces[-1][0], end, fate)
            else:
                pieces.append((begin, end, fate))
        return pieces

    def _shorter(self, segments: Sequence[tuple[int, str, str]], forms: Forms) -> Iterator[int]:
        """The places of results that may stand shorter than their neighbours."""
        count = len(self._nodes)
        begins = [0, *(place for place, _, _ in segments)]
        whole = "dropped" if segments else "kept"
        for (begin, action, reason), end in zip(
            [(0, whole, ""), *segments], [*begins[1:], count], strict=False
        ):
            if action == "degraded" and reason in OF_RESULTS:
                results = self._results
                yield from results[bisect_left(results, begin) : bisect_left(results, end)]
            elif action != "dropped":
                yield from forms.within(begin, end)


class _Fates:
    """What was decided on places that a turn had."""

    def __init__(
        self,
        segments: Sequence[tuple[int, str, str]],
        alone: frozenset[int],
        is_result: Sequence[bool],
    ) -> None:
        self._segments, self._alone, self._is_result = segments, alone, is_result
        self._begins = [place for place, _, _ in segments]

    def of(self, place: int) -> str:
        if place in self._alone:
            return LEFT_OUT
        at = bisect_right(self._begins, place) - 1
        if at < 0:
            return LEFT_OUT if self._segments or self._alone else SENT
        _, action, reason = self._segments[at]
        if action != "degraded" or (reason in OF_RESULTS and not self._is_result[place]):
            return LEFT_OUT if action == "dropped" else SENT
        return SHORTENED


def _before(log: MessageForest, n: int) -> int:
    """What stands before an entry in a whole list: after a call its results, as they were then."""
    parent = log.parents[n]
    if parent not in log.answered_calls:
        return parent
    return max((result for result in log.results(parent) if result < n), default=parent)


def _stored_as(messages: Sequence[Message]) -> dict[str, list[int]]:
    """The places of tool results, by the evidence that each is stored as."""
    places_of: dict[str, list[int]] = {}
    for place, message in enumerate(messages):
        for ref in (message.refs or ()) if message.role is Role.TOOL else ():
            places_of.setdefault(ref.evidence_id, []).append(place)
    return places_of


__all__ = [
    "ALONE",
    "LEFT_OUT",
    "QUOTED",
    "QUOTED_PART",
    "SENT",
    "SHORTENED",
    "MessagePlaces",
    "Piece",
]
