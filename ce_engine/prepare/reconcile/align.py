"""Where the older part of a host's list sits in the log: the anchor, and what stands before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ce_engine.prepare.reconcile.earlier_answers import EarlierAnswers
from ce_engine.prepare.reconcile.match import CANDIDATES, ENOUGH, NEW, Ambiguity, Matcher
from ce_engine.schema.enums import Origin


Rank = tuple[int, bool, bool, bool, bool]


@dataclass(frozen=True, slots=True)
class ReconcileFlags:
    """What is known beside content and order.

    Attributes:
        in_flight: entries whose answer this process waits for now.
        failed: entries whose call failed in this process.
        retry_of: the newest message of the call that this one repeats, where the adapter knows it.
        new_conversation: the host starts anew on purpose: no lane is joined, none brought in.
    """

    in_flight: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    retry_of: int | None = None
    new_conversation: bool = False


@dataclass(slots=True)
class Novelty:
    """How a message that the log does not have relates to what it has."""

    aside: bool = False
    replaces: int | None = None
    variant_of: int | None = None


class Alignment:
    """Finds the newest message of the list that is known for sure, and places what stands before it.

    What stands before an answer that was recorded was sent once, so it is old; what follows it is
    the current turn (`turn.place_turn`).

    Attributes:
        anchor: the position of that message in the line, -1 without one.
        novelties: one for each new message, by position in the line.
        from_known: leading messages of the line that were placed at once by their known places.
    """

    def __init__(
        self, matcher: Matcher, known_places: Sequence[int], *, new_conversation: bool
    ) -> None:
        self.matcher = matcher
        self.log = matcher.log
        self.novelties: dict[int, Novelty] = {}
        self.from_known = 0
        self.anchor, n = self._find_answer()
        if n == NEW and not new_conversation:
            self.anchor, n = self._find_question()
        if n != NEW:
            self._place_older(known_places, n)

    def _find_answer(self) -> tuple[int, int]:
        """The newest known answer of the list, and its entry."""
        line, earlier = self.matcher.line, EarlierAnswers(self.matcher)
        for j in range(len(line) - 1, -1, -1):
            if line[j].role != "assistant":
                continue
            candidates = self._not_earlier(j, earlier)
            if candidates:
                return j, candidates[0] if len(candidates) == 1 else self._best(j, candidates)
        return -1, NEW

    def _not_earlier(self, j: int, earlier: EarlierAnswers) -> list[int]:
        """The entries that answer `j` may be, without those that stand further up.

        Where one is it for sure, what fits less speaks for less, and is not asked for.
        """
        fits = [(n, *self.matcher.run(j, n, ENOUGH)) for n in self.matcher.candidates(j)]
        sure = {n: run for n, run, whole in fits if whole or run >= ENOUGH}
        most = max((run for n, run in sure.items() if self._may_be_end(j, n)), default=0)
        return [
            n
            for n, run, _ in fits
            if n in sure or (run >= most and not earlier.has(n, start=run, before=j))
        ]

    def _may_be_end(self, j: int, n: int) -> bool:
        """Where the list ends with calls, the turn goes on there: nothing follows the entry yet."""
        is_end = j == len(self.matcher.line) - 1 and bool(self.matcher.line[j].calls)
        return not (is_end and any(self.log.children(n)))

    def _find_question(self) -> tuple[int, int]:
        """Where no answer is known: the question that a lane ends with, and its entry."""
        matcher = self.matcher
        if len(matcher.line) < 2:
            return -1, NEW  # a message alone has rules of its own
        best = (0, 1, NEW)
        for j in range(len(matcher.line) - 1, -1, -1):
            if best[0] > matcher.at[j] + 1:
                break  # what is left of the list is too short to be better
            others = matcher.at[j] - j
            for n in matcher.candidates(j):
                if self.log.depth(n) + others >= best[0] and matcher.is_last_question(n, j):
                    best = max(best, (matcher.run(j, n)[0], -j, n))
        run, j, n = best[0], -best[1], best[2]
        root = matcher.root() if n != NEW else None
        start = 0 if root is None else matcher.run_on(root)
        # Among equals: the newest message may be said again; one that others follow was said here.
        if start > run or (start == run and j == len(matcher.line) - 1):
            return -1, NEW
        return j, n

    def _best(self, j: int, candidates: list[int]) -> int:
        """The entry that most speaks for; the newest among equals."""
        candidates = [n for n in candidates if self._may_be_end(j, n)] or candidates
        ranked: list[tuple[Rank, int]] = []
        whole = False
        for n in candidates:
            if whole and self.log.depth(n) <= j:
                continue  # its path is shorter than the list: it cannot be as good
            rank, is_whole = self._rank(j, n)
            ranked.append((rank, n))
            whole = whole or is_whole
        best, newest = max(ranked)
        if sum(rank == best for rank, _ in ranked) > 1:
            self.matcher.ambiguous.append(Ambiguity.TIE)
        return newest

    def _rank(self, j: int, n: int) -> tuple[Rank, bool]:
        """What speaks for entry `n` as message `j`, strongest first; whether the list is its path."""
        m, entry = self.matcher.line[j], self.log.entries[n]
        run, whole = self.matcher.run(j, n)
        same_id = m.host_id is not None and m.host_id == entry.host_id
        same_lane = self.matcher.reader.lane_key == entry.lane_key
        # The newest message may be said again; one that others follow was said here.
        near = islice(self.log.children(n), CANDIDATES) if j < len(self.matcher.line) - 2 else ()
        followed = any(self.matcher.same(c, j + 1) for c in near)
        return (run, same_id, same_lane, followed, m.calls == entry.calls), whole

    def _place_older(self, known_places: Sequence[int], n: int) -> None:
        matcher, parents = self.matcher, self.log.parents
        matcher.take(self.anchor, n)
        parent = parents[n]
        for j in range(self.anchor - 1, -1, -1):
            if j < len(known_places):
                if self._is_path(known_places[: j + 1], parent):
                    return
                known_places = ()
            if parent >= 0 and parent not in matcher.used and matcher.same(parent, j):
                n, parent = parent, parents[parent]
                matcher.take(j, n)
            elif (older_entry := self._find_older(j, parent, below=n)) is not None:
                n = older_entry
                matcher.take(j, n)
                if parent < 0 or matcher.is_ancestor(n, parent):
                    parent = parents[n]
            else:
                self._insert(j)

    def _is_path(self, known_places: Sequence[int], n: int) -> bool:
        """Place the rest of the line at once if its known places are the path of `n`.

        They are compared with the path, not believed: they change the cost, never the answer.
        """
        above = map(self.log.parents.__getitem__, known_places[1:])
        if known_places[-1] != n or list(above) != known_places[:-1]:
            return False
        self.matcher.places[: len(known_places)] = known_places
        self.matcher.used.update(known_places)
        self.from_known = len(known_places)
        return True

    def _find_older(self, j: int, parent: int, below: int) -> int | None:
        """The entry of a message off the path: of a trimmed middle, else any (an aside)."""
        n = self.matcher.by_host_id(j)
        if n is not None:
            return n if self.matcher.same(n, j) else None  # the same id, other content: an edit
        candidates = self.matcher.candidates(j, below) or self.matcher.candidates(j)
        return self._nearest(candidates, parent) if candidates else None

    def _nearest(self, candidates: list[int], n: int) -> int:
        """The candidate beside `n` (below it on another branch), else nearest above it, else the newest."""
        for c in candidates:
            if c > n and self.matcher.is_ancestor(n, c):
                return c
        candidate_set = set(candidates)
        while n >= candidates[-1]:
            if n in candidate_set:
                return n
            n = self.log.parents[n]
        return candidates[0]

    def _insert(self, j: int) -> None:
        """Note an older message that the log does not have."""
        edited = self.matcher.by_host_id(j)
        if edited is None:
            edited = self._gap(j)
        self.novelties[j] = Novelty(aside=True, replaces=edited)

    def _gap(self, j: int) -> int | None:
        """The one entry between the neighbours of message `j`: the host edited it."""
        m, matcher, below = self.matcher.line[j], self.matcher, self.matcher.places[j + 1]
        gap = NEW if below == NEW else self.log.parents[below]
        if gap == NEW or gap in matcher.used or m.origin == Origin.HOST_SUMMARY:
            return None
        above = matcher.over_calls(self.log.parents[gap], j - 1)
        if not matcher.compatible(gap, m) or (j == 0) != (above < 0):
            return None
        forms = () if j == 0 else (above, *self.log.replacements(above))
        return gap if j == 0 or any(matcher.same(n, j - 1) for n in forms) else None
