"""Where the messages of a session went, turn by turn: out as they are, shortened, quoted, or left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.audit.explanation import THERE_ALREADY
from ce_engine.prepare.reconcile.earlier_lanes import EarlierLanes
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.message_forest import MessageForest
from ce_engine.schema.rows import MessageRow, TurnRow
from ce_engine.sessions.summary_coverage import BROKEN_OFF
from ce_engine.sessions.view import entry_of


SENT, SHORTENED, QUOTED, LEFT_OUT = "sent", "shortened", "quoted", "left_out"
FATES = {
    SENT: "as a message",
    SHORTENED: "shortened",
    QUOTED: "quoted",
    LEFT_OUT: "left out",
}
"""What may become of a message in a turn, in words."""

_OF_RESULTS = frozenset(
    {
        *("older_tool_result", "repeated_result", "changed_fields"),
        *("compact_json", "selected_lines"),
    }
)
"""Reasons for which the results of a group are shorter, and not the call."""

_ALONE = frozenset({"orphaned_tool_result", "unanswered_tool_call", "repeated_system_message"})
"""Reasons of decisions on a single message, which stands in no run."""

_RECALLED = ("m:", "e:")


@dataclass(frozen=True, slots=True)
class Stay:
    """What became of a message in some turns: its fate, and the first and last of each stretch of them."""

    fate: str
    stretches: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a message went: the turn that had it first, from 1, and what became of it in all that had it."""

    first: int
    stays: tuple[Stay, ...]


def fate_words(fate: str, say: Say = ENGLISH) -> str:
    """What became of a message, in words."""
    return say(FATES[fate])


def evidence_whereabouts(ids: Iterable[str], turns: Sequence[TurnRow]) -> dict[str, Whereabouts]:
    """Where pieces of evidence went: the turns in which each stands in what was put in."""
    wanted, stretches = frozenset(ids), dict[str, list[tuple[int, int]]]()
    for number, row in enumerate(turns, start=1):
        for name in wanted.intersection(row.report.get("injected_evidence_ids", ())):
            found = stretches.setdefault(name, [])
            goes_on = bool(found) and found[-1][1] == number - 1
            first = found.pop()[0] if goes_on else number
            found.append((first, number))
    return {
        name: Whereabouts(found[0][0], (Stay(QUOTED, tuple(found)),))
        for name, found in stretches.items()
    }


def whereabouts(
    ids: Iterable[str], document: SessionDocument, turns: Sequence[TurnRow]
) -> dict[str, Whereabouts]:
    """Where messages went, by the decisions that are stored of each turn.

    Turns without a stored report, and calls of helpers, tell nothing.

    Args:
        ids: of the messages, in the order of their list.
        document: of the session.
        turns: all of it, oldest first.
    """
    places = _Places(ids, document, turns)
    known: dict[tuple[object, ...], int] = {}
    fates: list[list[str | None]] = []
    calls: list[tuple[int, str, int]] = []
    for number, row in enumerate(turns, start=1):
        if (told := places.told(row)) is None:
            continue
        at = known.setdefault(told, len(fates))
        if at == len(fates):
            fates.append(places.fates(*told))
        calls.append((number, row.lane, at))
    found: dict[tuple[str | None, ...], Whereabouts | None] = {}
    made: dict[str, Whereabouts] = {}
    for name, column in zip(places.ids, zip(*fates, strict=True), strict=False):
        if column not in found:
            found[column] = _stays(column, calls)
        if (where := found[column]) is not None:
            made[name] = where
    return made


def _stays(
    column: Sequence[str | None], calls: Sequence[tuple[int, str, int]]
) -> Whereabouts | None:
    """A message's fates as stretches of turns; turns of other lanes that have it not end none."""
    stretches: dict[str, list[list[int]]] = {fate: [] for fate in FATES}
    last, its_lane, first = "", "", 0
    for number, lane, at in calls:
        fate = column[at]
        if fate is None:
            last = "" if lane == its_lane else last
            continue
        first, its_lane = first or number, lane
        if fate == last:
            stretches[fate][-1][1] = number
        else:
            stretches[fate].append([number, number])
        last = fate
    if not first:
        return None
    return Whereabouts(
        first,
        tuple(
            Stay(fate, tuple((a, b) for a, b in runs)) for fate, runs in stretches.items() if runs
        ),
    )


_Told = tuple[
    tuple[tuple[int, int], ...], tuple[tuple[int, str, str], ...], tuple[int, ...], tuple[int, ...]
]
"""Of a turn, by places: stretches that it had, decisions with where they begin, those alone, and what it quoted."""


class _Places:
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
        entries = dict.fromkeys(n for each in ids if (n := log.by_message_id(each)) is not None)
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
        stored = [messages[n] for n in nodes]
        self._is_result = [message.role is Role.TOOL for message in stored]
        self._by_evidence = _stored_as(stored)
        self._may_return = self._answered(messages, turns)

    def _answered(self, messages: Sequence[Message], turns: Sequence[TurnRow]) -> list[str | None]:
        """Of each the lane that may bring it in again where the app keeps nothing; `None` where none may."""
        log, lanes = self._log, dict[int, str]()
        for row in turns:
            if (n := log.by_message_id(row.tip_message_id or "")) is not None:
                lanes.setdefault(log.root(n), row.lane)
        earlier, found = EarlierLanes(log), list[str | None]()
        whole: dict[int, frozenset[int]] = {}
        for n in self._nodes:
            root = log.root(n)
            if root not in whole:
                whole[root] = frozenset(earlier.answered(root))
            is_there = n in whole[root] and messages[n].status not in BROKEN_OFF
            found.append(lanes.get(root) if is_there else None)
        return found

    def told(self, row: TurnRow) -> _Told | None:
        """What is stored of a turn, by places; `None` where that is nothing."""
        archive = row.report.get("extra", {}).get("replay")
        if not isinstance(archive, Mapping):
            return None
        segments, alone = self._decisions(row.report.get("prune_decisions", ()))
        stretches = [s for run in archive.get("line", ()) for s in self._stretches(*run)]
        if archive.get("bring") and not archive.get("closed"):
            stretches += self._brought_in(row.lane, archive["bring"], segments)
        return (tuple(sorted(stretches)), segments, alone, self._quoted(row.report))

    def _decisions(
        self, stored: Iterable[Mapping[str, Any]]
    ) -> tuple[tuple[tuple[int, str, str], ...], tuple[int, ...]]:
        segments: dict[int, tuple[str, str]] = {}
        alone: list[int] = []
        for each in stored:
            name = each["block_id"]
            n = None if name.startswith(_RECALLED) else self._log.by_message_id(name)
            if n is None:
                continue
            if each["reason"] in _ALONE:
                alone += [self._at[n]] if n in self._at else []
                continue
            place = self._at.get(n, self._join[n] + 1)
            if place < len(self._nodes):
                segments[place] = (each["action"], each["reason"])
        return tuple((place, *fate) for place, fate in sorted(segments.items())), tuple(alone)

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

    def _brought_in(
        self,
        lane: str,
        bring: tuple[str, Sequence[str]],
        segments: Sequence[tuple[int, str, str]],
    ) -> Iterator[tuple[int, int]]:
        """The places of stored messages that the engine brought in: from the first that anything was decided on."""
        log, (before, without) = self._log, bring
        first = segments[0][0] if segments else len(self._nodes)
        end = log.by_message_id(before) if before else None
        gone = {log.by_message_id(each) for each in without}
        for place in range(first, len(self._nodes)):
            root = log.root(self._nodes[place])
            if end is not None and root >= end:
                return
            if self._may_return[place] == lane and root not in gone:
                yield place, place + 1

    def _quoted(self, report: Mapping[str, Any]) -> tuple[int, ...]:
        """The places of what stands in what was put in: chosen in this turn, or before an earlier question."""
        names = [*report.get("quoted_message_ids", ()), *_standing(report)]
        found = {self._log.by_message_id(each) for each in names}
        places = {self._at[n] for n in found if n in self._at}
        for each in report.get("injected_evidence_ids", ()):
            places.update(self._by_evidence.get(each, ()))
        return tuple(sorted(places))

    def fates(
        self,
        stretches: Sequence[tuple[int, int]],
        segments: Sequence[tuple[int, str, str]],
        alone: Sequence[int],
        quoted: Sequence[int],
    ) -> list[str | None]:
        """What became of the message at each place; `None` of one that the turn had not."""
        count = len(self._nodes)
        decided: list[str | None] = [SENT if not segments and not alone else LEFT_OUT] * count
        ends = [*(place for place, _, _ in segments[1:]), count]
        for (place, action, reason), end in zip(segments, ends, strict=False):
            fate = {"kept": SENT, "dropped": LEFT_OUT}.get(action, SHORTENED)
            decided[place:end] = [fate] * (end - place)
            if fate == SHORTENED and reason in _OF_RESULTS:
                results = self._is_result[place:end]
                decided[place:end] = [SHORTENED if is_one else SENT for is_one in results]
        for place in alone:
            decided[place] = LEFT_OUT
        made: list[str | None] = [None] * count
        for begin, end in stretches:
            made[begin:end] = decided[begin:end]
        for place in quoted:
            made[place] = QUOTED if made[place] in (None, LEFT_OUT) else made[place]
        return made


def _standing(report: Mapping[str, Any]) -> Iterator[str]:
    """What was brought in before, and stands where it was sent: a decision may be on several questions' together."""
    pins = [
        [ref if isinstance(ref, str) else ref[0] for ref in refs]
        for _, refs, *_ in report["extra"]["replay"].get("pins", ())
        if refs
    ]
    for each in report.get("prune_decisions", ()):
        if each["reason"] != THERE_ALREADY:
            continue
        first, left = each["block_id"].partition(":")[2], each.get("count", 1)
        begin = next((at for at, names in enumerate(pins) if names[0] == first), len(pins))
        for names in pins[begin:]:
            if len(names) <= left:
                left -= len(names)
                yield from names


def _before(log: MessageForest, n: int) -> int:
    """What stands before an entry in a whole list: after a call its results, as they were then."""
    parent = log.parents[n]
    if parent not in log.answered_calls:
        return parent
    return max((result for result in log.results(parent) if result < n), default=parent)


def _stored_as(messages: Sequence[Message]) -> dict[str, list[int]]:
    """The places of tool results, by the evidence that each is stored as."""
    found: dict[str, list[int]] = {}
    for place, message in enumerate(messages):
        for ref in (message.refs or ()) if message.role is Role.TOOL else ():
            found.setdefault(ref.evidence_id, []).append(place)
    return found


__all__ = [
    "FATES",
    "LEFT_OUT",
    "QUOTED",
    "SENT",
    "SHORTENED",
    "Stay",
    "Whereabouts",
    "evidence_whereabouts",
    "fate_words",
    "whereabouts",
]
