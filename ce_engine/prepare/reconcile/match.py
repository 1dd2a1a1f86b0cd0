"""What a host's list has in common with the log: which entry a message may be, and how well lists agree."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from ce_engine.schema.message_forest import MessageForest


NEW = -1
"""The place of a message that the log does not have."""

CANDIDATES = 32
"""Equal messages that are looked at: with thousands of "yes" the cost stays linear."""

ENOUGH = 16
"""So many messages in a row that fit are no coincidence."""


class Ambiguity(StrEnum):
    """What content cannot decide (codes of the event `reconcile.ambiguous`); a rule is applied."""

    RETRY = "same_text_unanswered"
    """A message without history whose newest twin waits for its answer: a retry."""
    REPETITION = "same_text_answered"
    """A message without history whose twin has its answer: said again."""
    STALE = "same_text_unanswered_earlier"
    """A message without history whose twin waits, but is not the newest: said again."""
    PARALLEL = "same_text_in_flight"
    """A message without history whose twin is in flight in this process: one row, several answers."""
    TIE = "equal_candidates"
    """Several equally good places for the list: the newest."""
    REGENERATE = "same_predecessor"
    """The same message after the same predecessor, answered: regenerated, not said again."""
    BRANCH = "edit_or_branch"
    """Another message where one already follows: a sibling."""
    REWRITTEN = "rewritten_answer"
    """Another answer in the place of a recorded one: a variant."""
    RESET = "history_gone"
    """The host used to send its history and sends none: it is brought in."""


@dataclass(slots=True)
class IncomingMessage:
    """A message of the host's list, reduced to what recognises it; the fields are those of `Entry`.

    Attributes:
        role: messages with role `"system"` keep their place and are neither matched nor stored.
        author: the author that the host names; `None` where it names nobody.
        origin: what the message is, whatever its role (`Origin`).
    """

    key: bytes
    role: str
    author: str | None = None
    origin: str = ""
    calls: tuple[str, ...] = ()
    call_id: str | None = None
    host_id: bytes | None = None
    loose_key: bytes | None = None


@dataclass(frozen=True, slots=True)
class ListReader:
    """Who makes the call: its agent and lane, where the framework names them, and its equality.

    `same_answer(n, i)` says whether answer `i` of the host's list is recorded answer `n`, rewritten.
    """

    agent: str = ""
    lane_key: str = ""
    same_answer: Callable[[int, int], bool] | None = None

    def speaker(self, m: IncomingMessage) -> str | None:
        return m.author or (self.agent if m.role == "assistant" else None) or None


class Matcher:
    """The line of a host's list (no system messages, no tool results), and which entries it may be.

    It `begins` with messages of these indexes, where that is known, all that are before `start`.

    Attributes:
        line: the messages of the line.
        at: their indexes in the host's list.
        places: the entry that each one is, or `NEW`.
        used: the entries that are taken; no entry is two messages of one list.
        ambiguous: codes of the rules that were applied where content decides nothing.
    """

    def __init__(
        self,
        log: MessageForest,
        incoming: Sequence[IncomingMessage],
        reader: ListReader,
        start: int = 0,
        begins: Sequence[int] = (),
    ) -> None:
        self.log = log
        self.incoming = incoming
        self.reader = reader
        rest = range(start, len(incoming))
        self.at = [*begins, *(i for i in rest if incoming[i].role not in ("system", "tool"))]
        self.line = [*map(incoming.__getitem__, self.at)]
        self.places: list[int] = [NEW] * len(self.line)
        self.used: set[int] = set()
        self.ambiguous: list[str] = []
        self._host_ids: Counter[bytes | None] | None = None

    def take(self, j: int, n: int) -> None:
        self.places[j] = n
        self.used.add(n)

    # One message and one entry

    def compatible(self, n: int, m: IncomingMessage) -> bool:
        """The key holds no role: compare the speakers where both are named, else the roles.

        Who spoke is not guessed where the framework's id says which message it is.
        """
        entry = self.log.entries[n]
        has_id = m.host_id is not None and m.host_id == entry.host_id
        speaker = m.author if has_id else self.reader.speaker(m)
        if speaker and entry.speaker:
            return speaker == entry.speaker
        return m.role == entry.role

    def same(self, n: int, j: int) -> bool:
        """Whether message `j` can be entry `n` by what it says and who says it."""
        m = self.line[j]
        if self.log.entries[n].key == m.key:
            return self.compatible(n, m)
        return m.role == "assistant" and self.rewritten(n, j)

    def rewritten(self, n: int, j: int) -> bool:
        """Whether answer `j` is recorded answer `n` as the host rewrote it."""
        entry, m = self.log.entries[n], self.line[j]
        if entry.role != "assistant" or len(entry.calls) != len(m.calls):
            return False
        if not self.compatible(n, m):
            return False
        if m.loose_key and m.loose_key == entry.loose_key:
            return True
        return self.reader.same_answer is not None and self.reader.same_answer(n, self.at[j])

    # The entries that a message may be

    def candidates(self, j: int, below: int | None = None) -> list[int]:
        """Unused entries that message `j` may be, newest first; `below` asks for older ones."""
        m, log = self.line[j], self.log
        entries = self._unused(log.by_key(m.key), m, below)
        if m.role == "assistant":
            loose = self._unused(log.by_loose_key(m.loose_key), m, below)
            rewritten = [n for n in loose if n not in entries and self.rewritten(n, j)]
            entries = sorted([*entries, *rewritten], reverse=True) if rewritten else entries
        return entries

    def _unused(
        self, entries: Sequence[int], m: IncomingMessage, below: int | None = None
    ) -> list[int]:
        matches: list[int] = []
        i = len(entries) if below is None else bisect_left(entries, below)
        while i > 0 and len(matches) < CANDIDATES:
            i -= 1
            n = entries[i]
            if n not in self.used and self.compatible(n, m):
                matches.append(n)
        return matches

    def by_host_id(self, j: int, after: int = NEW) -> int | None:
        """The unused entry with the framework's id of message `j`, whatever it says.

        An id that stands twice in the list, or on the path up to `after`, too, is one that the host
        gives to several messages (a constant object): it says nothing.
        """
        m = self.line[j]
        n = self.log.by_host_id(m.host_id)
        if n is None or n in self.used or self.is_ancestor(n, after):
            return None
        if self._host_ids is None:
            self._host_ids = Counter(m.host_id for m in self.line)
        return n if self._host_ids[m.host_id] == 1 and self.compatible(n, m) else None

    def roots(self) -> list[int]:
        """Unused entries without a predecessor that the first message may be, newest first."""
        return self._unused(self.log.roots_by_key(self.line[0].key), self.line[0])

    def root(self) -> int | None:
        """The lane that the list starts as, if nothing stands before its first message."""
        lane_key, entries = self.reader.lane_key, self.log.entries
        roots = self.roots()
        if len(roots) < 2:
            return next(iter(roots), None)
        return max(roots, key=lambda n: (self.run_on(n), entries[n].lane_key == lane_key, n))

    def answers(self, n: int, *, calls: bool = False) -> Iterator[int]:
        """Recorded answers to entry `n`, newest first; without `calls` the final ones."""
        places = [n]
        while places:
            for child in islice(self.log.children(places.pop()), CANDIDATES):
                entry = self.log.entries[child]
                if entry.role == "assistant" and bool(entry.calls) == calls:
                    yield child
                elif entry.calls:
                    places.append(child)

    def is_last_question(self, n: int, j: int) -> bool:
        """Whether `n` is among the last questions of its lane, and message `j` can be it.

        It waits for its answer, or the host has another answer to it than the one recorded.
        """
        log, end = self.log, self.log.leaf(self.log.root(n))
        if (
            end is None
            or log.entries[n].role != "user"
            or log.depth(end) > log.depth(n) + CANDIDATES
        ):
            return False
        followed = j < len(self.line) - 1 and self.line[j + 1].role == "assistant"
        if followed and not log.entries[end].calls:
            while end > n and log.entries[end].role == "assistant":
                end = log.parents[end]
        while end > n and (log.entries[end].role == "user" or log.entries[end].calls):
            end = log.parents[end]
        return end == n

    # The list and the paths of the log

    def is_ancestor(self, n: int, of: int) -> bool:
        return n < 0 or (of >= n and self.log.is_on_path(n, of))

    def hangs_on(self, n: int, on: int) -> bool:
        """Whether `n` follows `on` directly, or over tool calls that the host may leave out."""
        entries, parents = self.log.entries, self.log.parents
        n = parents[n]
        while n > on and entries[n].calls:
            n = parents[n]
        return n == on

    def over_calls(self, n: int, j: int) -> int:
        """Up from `n` to what message `j` can be: a host may leave out older tool calls."""
        while j >= 0 and n >= 0 and self.log.entries[n].calls and not self.line[j].calls:
            n = self.log.parents[n]
        return n

    def run(self, j: int, n: int, enough: float = math.inf) -> tuple[int, bool]:
        """How many messages, backward from `j`, follow the parents of `n`; whether all of them do.

        Who needs to know no more than that they are `enough` is not told how many.
        """
        entries, count = self.log.entries, 0
        while j >= 0:
            if count >= enough or n < 0 or not self.same(n, j):
                return count, False
            count += 1
            n, results = self.log.parents[n], self._results_before(j)
            if not results:
                n = self.over_calls(n, j - 1)
            if n >= 0 and bool(entries[n].calls) != bool(results):
                return count, False  # a call without results, or results without one: cut here
            if not all(self._has_result(n, result) for result in results):
                return count, False
            count += len(results)
            j -= 1
        return count, True

    def run_on(self, n: int) -> int:
        """How many messages of the list, from its first on, follow the children of `n`."""
        for j in range(1, len(self.line)):
            children = islice(self.log.children(n), CANDIDATES)
            child = next((c for c in children if self.same(c, j)), None)
            if child is None:
                return j
            n = child
        return len(self.line)

    def _results_before(self, j: int) -> list[IncomingMessage]:
        start = self.at[j - 1] + 1 if j else 0
        if start == self.at[j]:
            return []
        return [m for m in self.incoming[start : self.at[j]] if m.role == "tool"]

    def _has_result(self, n: int, result: IncomingMessage) -> bool:
        """Whether `n` is the call that this result was stored under."""
        results = (self.log.entries[r] for r in self.log.results(n))
        return any(e.key == result.key and e.call_id == result.call_id for e in results)
