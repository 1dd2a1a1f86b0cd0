"""Where stored messages stand that a turn brought in by itself: in the order of its input, and not in that of the session."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ce_engine.prepare.reconcile.earlier_lanes import EarlierLanes
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Role
from ce_engine.schema.message_forest import MessageForest
from ce_engine.schema.rows import TurnRow
from ce_engine.sessions.summary_coverage import BROKEN_OFF


Fate = tuple[str, str]
"""What was decided: an action and its reason."""


@dataclass(slots=True)
class LaneHistory:
    """What may be brought in again of the talks of a lane, talk by talk: one may still grow when the next one begins.

    Attributes:
        entries: of the session, in the order of an input.
        roots: the first entry of the talk that each is of.
        ends_here: of each, whether a talk may end with it: an answer, and no call of tools.
        position: of each entry.
        runs: neighbours that stand so in the list, too: from one position to before another, and the first's place.
        talks: of each root, from which position to before which other one.
        growing: roots of talks that went on when a later one had begun.
    """

    entries: list[int] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    ends_here: list[bool] = field(default_factory=list)
    position: dict[int, int] = field(default_factory=dict)
    runs: list[tuple[int, int, int]] = field(default_factory=list)
    talks: dict[int, tuple[int, int]] = field(default_factory=dict)
    growing: list[int] = field(default_factory=list)

    def add(self, root: int, entry: int, place: int | None, *, ends_here: bool) -> None:
        """Take in the next entry; its place in the list, if it is in that."""
        at = len(self.entries)
        self.entries.append(entry)
        self.roots.append(root)
        self.ends_here.append(ends_here)
        self.position[entry] = at
        begin, _ = self.talks.get(root, (at, at))
        self.talks[root] = (begin, at + 1)
        if place is None:
            return
        first, end, start = self.runs[-1] if self.runs else (0, -1, 0)
        if end == at and start + at - first == place:
            self.runs[-1] = (first, at + 1, start)
        else:
            self.runs.append((at, at + 1, place))

    def close(self) -> None:
        """Find out which talks go on when a later one has begun."""
        ordered = sorted(self.talks)
        self.growing = [
            root
            for root, following in pairwise(ordered)
            if max(self.entries[slice(*self.talks[root])]) > following
        ]

    def pieces(
        self, before: int, newest: int, without: Iterable[int], decided: Mapping[int, Fate]
    ) -> Iterator[tuple[int, int, Fate]]:
        """What was brought in, as neighbours in the list, with what was decided on them.

        Args:
            before: only talks that began before this entry.
            newest: the newest entry that was there.
            without: roots of talks that were under way.
            decided: by positions, on each and those behind it; nothing came in before the first of them.
        """
        marks = sorted(decided)
        stop = bisect_left(self.roots, min(before, newest + 1))
        for begin, end in self._there(marks[0] if marks else stop, stop, newest, without):
            inner = marks[bisect_right(marks, begin) : bisect_left(marks, end)]
            for start, finish in zip((begin, *inner), (*inner, end), strict=True):
                fate = decided[marks[bisect_right(marks, start) - 1]]
                for first, last in self._places(start, finish):
                    yield first, last, fate

    def _there(
        self, begin: int, stop: int, newest: int, without: Iterable[int]
    ) -> Iterator[tuple[int, int]]:
        """Positions of what was there then, as stretches."""
        last = [self.roots[stop - 1]] if stop else []
        later = {root for root in (*self.growing, *last) if self.talks[root][0] < stop}
        gaps = [self.talks[root] for root in without if root in self.talks]
        gaps += [(self._answered(root, newest), self.talks[root][1]) for root in later]
        for first, end in sorted(gaps):
            if begin < min(first, stop):
                yield begin, min(first, stop)
            begin = max(begin, end)
        if begin < stop:
            yield begin, stop

    def _answered(self, root: int, newest: int) -> int:
        """The position behind the last answer of a talk that was there then."""
        begin, end = self.talks[root]
        while end > begin and (self.entries[end - 1] > newest or not self.ends_here[end - 1]):
            end -= 1
        return end

    def _places(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Positions as stretches of places."""
        at = max(0, bisect_right(self.runs, (begin, len(self.entries) + 1, 0)) - 1)
        for first, last, place in self.runs[at:]:
            if first >= end:
                return
            start, finish = max(first, begin), min(last, end)
            if start < finish:
                yield place + start - first, place + finish - first


class Histories:
    """What may be brought in again, by lanes; tool calls and their results by hand alone.

    Args:
        log: of the session's messages, which are `messages`.
        places: of entries in the list.
        turns: of the session.
    """

    def __init__(
        self,
        log: MessageForest,
        messages: Sequence[Message],
        places: Mapping[int, int],
        turns: Sequence[TurnRow],
    ) -> None:
        self._histories: dict[tuple[str, bool], LaneHistory] = {}
        lanes = dict[int, str]()
        for row in turns:
            if (n := log.by_message_id(row.tip_message_id or "")) is not None:
                lanes.setdefault(log.root(n), row.lane)
        earlier = EarlierLanes(log)
        for root in sorted(lanes):
            for n in earlier.answered(root):
                message = messages[n]
                if message.status in BROKEN_OFF:
                    continue
                is_step = message.role is Role.TOOL or bool(message.tool_calls)
                ends = message.role is Role.ASSISTANT and not is_step
                for by_hand in (True,) if is_step else (True, False):
                    history = self._histories.setdefault((lanes[root], by_hand), LaneHistory())
                    history.add(root, n, places.get(n), ends_here=ends)
        for history in self._histories.values():
            history.close()

    def of(self, lane: str, *, by_hand: bool) -> LaneHistory:
        """What may be brought in again in a lane."""
        return self._histories.get((lane, by_hand)) or LaneHistory()


__all__ = ["Fate", "Histories", "LaneHistory"]
