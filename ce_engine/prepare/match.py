"""When a host's message and a stored entry may be the same: fingerprint, speaker, framework id."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ce_engine.schema.log import Log


NEW = -1
"""The place of a message that the log does not have."""

CANDIDATES = 32
"""Equal messages that are looked at: with thousands of "yes" the cost stays linear."""


@dataclass(slots=True)
class Incoming:
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
class Reader:
    """Who makes the call: its agent and lane, where the framework names them, and its equality.

    `same_answer(n, i)` says whether answer `i` of the host's list is recorded answer `n`, rewritten.
    """

    agent: str = ""
    lane_key: str = ""
    same_answer: Callable[[int, int], bool] | None = None

    def speaker(self, m: Incoming) -> str | None:
        return m.author or (self.agent if m.role == "assistant" else None) or None


class Matcher:
    """The line of a host's list (no system messages, no tool results), and which entries it may be.

    Attributes:
        line: the messages of the line.
        at: their indexes in the host's list.
        places: the entry that each one is, or `NEW`.
        used: the entries that are taken; no entry is two messages of one list.
    """

    def __init__(self, log: Log, incoming: Sequence[Incoming], reader: Reader) -> None:
        self.log = log
        self.incoming = incoming
        self.reader = reader
        self.at = [i for i, m in enumerate(incoming) if m.role not in ("system", "tool")]
        self.line = [incoming[i] for i in self.at]
        self.places: list[int] = [NEW] * len(self.line)
        self.used: set[int] = set()

    def take(self, j: int, n: int) -> None:
        self.places[j] = n
        self.used.add(n)

    def compatible(self, n: int, m: Incoming) -> bool:
        """The key holds no role: compare the speakers where both are named, else the roles."""
        entry = self.log.entries[n]
        speaker = self.reader.speaker(m)
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

    def candidates(self, j: int, below: int | None = None) -> list[int]:
        """Unused entries that message `j` may be, newest first; `below` asks for older ones."""
        m, log = self.line[j], self.log
        found = self._unused(log.by_key(m.key), m, below)
        if m.role == "assistant":
            loose = self._unused(log.by_loose_key(m.loose_key), m, below)
            rewritten = [n for n in loose if n not in found and self.rewritten(n, j)]
            found = sorted([*found, *rewritten], reverse=True) if rewritten else found
        return found

    def roots(self, j: int) -> list[int]:
        """Unused entries without a predecessor that message `j` may be, newest first."""
        return self._unused(self.log.roots_by_key(self.line[j].key), self.line[j], None)

    def _unused(self, entries: Sequence[int], m: Incoming, below: int | None) -> list[int]:
        found: list[int] = []
        i = len(entries) if below is None else bisect_left(entries, below)
        while i > 0 and len(found) < CANDIDATES:
            i -= 1
            n = entries[i]
            if n not in self.used and self.compatible(n, m):
                found.append(n)
        return found

    def by_host_id(self, j: int, after: int = NEW) -> int | None:
        """The unused entry with the framework's id of message `j`.

        An id that stands twice in the list, or on the path up to `after`, too, is one that the host
        gives to several messages (a constant object): it says nothing.
        """
        host_id = self.line[j].host_id
        n = self.log.by_host_id(host_id)
        if n is None or n in self.used or self.is_ancestor(n, after):
            return None
        if sum(m.host_id == host_id for m in self.line) > 1:
            return None
        return n if self.compatible(n, self.line[j]) else None

    def is_ancestor(self, n: int, of: int) -> bool:
        while of > n:
            of = self.log.parents[of]
        return of == n

    def hangs_on(self, n: int, on: int) -> bool:
        """Whether `n` follows `on` directly, or over tool calls that the host may leave out."""
        entries, parents = self.log.entries, self.log.parents
        n = parents[n]
        while n > on and entries[n].calls:
            n = parents[n]
        return n == on

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

    def results_before(self, j: int) -> list[Incoming]:
        """Tool results that the host sends between message `j` and the one before it."""
        start = self.at[j - 1] + 1 if j else 0
        if start == self.at[j]:
            return []
        return [m for m in self.incoming[start : self.at[j]] if m.role == "tool"]

    def is_last_question(self, n: int, j: int) -> bool:
        """Whether `n` is the question that its lane ends with, and message `j` can be it.

        It waits for its answer, or the host has another answer to it than the one recorded.
        """
        entries, end = self.log.entries, self.log.leaf(self.log.root(n))
        if end is None or entries[n].role != "user":
            return False
        line = self.line
        if j < len(line) - 1 and line[j + 1].role == "assistant" and not entries[end].calls:
            while end > n and entries[end].role == "assistant":
                end = self.log.parents[end]
        while end > n and (entries[end].role == "user" or entries[end].calls):
            end = self.log.parents[end]
        return end == n

    def run(self, j: int, n: int) -> tuple[int, bool]:
        """How many messages, backward from `j`, follow the parents of `n`; whether all of them do."""
        entries, count = self.log.entries, 0
        while j >= 0:
            if n < 0 or not self.same(n, j):
                return count, False
            count += 1
            n, results = self.log.parents[n], self.results_before(j)
            if not results:
                n = self.over_calls(n, j - 1)
            if n >= 0 and bool(entries[n].calls) != bool(results):
                return count, False  # a call without results, or results without one: cut here
            if not all(self.has_result(n, result) for result in results):
                return count, False
            count += len(results)
            j -= 1
        return count, True

    def has_result(self, n: int, result: Incoming) -> bool:
        """Whether `n` is the call that this result was stored under."""
        stored = (self.log.entries[r] for r in self.log.results(n))
        return any(e.key == result.key and e.call_id == result.call_id for e in stored)

    def over_calls(self, n: int, j: int) -> int:
        """Up from `n` to what message `j` can be: a host may leave out older tool calls."""
        while j >= 0 and n >= 0 and self.log.entries[n].calls and not self.line[j].calls:
            n = self.log.parents[n]
        return n

    def root(self) -> int | None:
        """The lane that the list starts as, without history before its first message."""
        lane_key, entries = self.reader.lane_key, self.log.entries
        roots = self.roots(0)
        if len(roots) < 2:
            return next(iter(roots), None)
        return max(roots, key=lambda n: (self.run_on(n), entries[n].lane_key == lane_key, n))

    def run_on(self, n: int) -> int:
        """How many messages of the list, from its first on, follow the children of `n`."""
        line = self.line
        for j in range(1, len(line)):
            children = islice(self.log.children(n), CANDIDATES)
            child = next((c for c in children if self.same(c, j)), None)
            if child is None:
                return j
            n = child
        return len(line)
