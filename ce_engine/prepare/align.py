"""Where a host's messages sit in the log: the anchor, what stands before it, and the current turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice

from ce_engine.prepare.match import CANDIDATES, NEW, Incoming, Matcher
from ce_engine.schema.enums import Origin


# What content cannot decide (codes of the event `reconcile.ambiguous`), and the rule that is applied.
RETRY = "same_text_unanswered"  # a lone message whose newest twin waits for its answer: a retry
REPETITION = "same_text_answered"  # a lone message whose twin has its answer: said again
STALE = "same_text_unanswered_earlier"  # its unanswered twin is not the newest: said again
PARALLEL = "same_text_in_flight"  # its twin is in flight in this process: one row, several answers
TIE = "equal_candidates"  # several equally good places: the newest
REGENERATE = "same_predecessor"  # answered, and the same message before it: regenerate, no new row
BRANCH = "edit_or_branch"  # another message where one already follows: a sibling
REWRITTEN = "rewritten_answer"  # another answer in the place of a recorded one: a variant


Rank = tuple[int, bool, bool, bool, bool]


@dataclass(frozen=True, slots=True)
class Flags:
    """What is known beside content and order.

    Attributes:
        in_flight: entries whose answer this process waits for now.
        failed: entries whose call failed in this process and was not repeated since.
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
    """Fills the places of a matcher.

    Attributes:
        novelties: one for each new message, by position in the line.
        ambiguous: codes of the rules applied where content decides nothing.
        from_known: leading messages of the line that were placed at once by `known`.
    """

    def __init__(self, matcher: Matcher, flags: Flags, known: Sequence[int | None]) -> None:
        self.matcher = matcher
        self.log = matcher.log
        self.flags = flags
        self.novelties: dict[int, Novelty] = {}
        self.ambiguous: list[str] = []
        self.from_known = 0
        entries = self.log.entries
        self._known = [n for n in known if n is not None and entries[n].role != "tool"]
        j, anchor = self._find_anchor()
        if anchor != NEW:
            self._place_older(j, anchor)
        self._place_turn(j + 1, anchor)

    def _find_anchor(self) -> tuple[int, int]:
        """The newest message of the list that is known for sure, and its entry; (-1, NEW) without one.

        That is the newest known answer; without one, the question that a lane still waits with.
        """
        line = self.matcher.line
        for j in range(len(line) - 1, -1, -1):
            if line[j].role == "assistant" and (found := self.matcher.candidates(j)):
                return j, found[0] if len(found) == 1 else self._best(j, found)
        if len(line) < 2 or self.flags.new_conversation:
            return -1, NEW
        waiting = (
            (self._run(j, n)[0], -j, n)
            for j in range(len(line))
            for n in self.matcher.candidates(j)
            if self._is_last_question(n, j)
        )
        run, j, n = max(waiting, default=(0, 1, NEW))
        root = self._root()
        if root is not None and self._run_on(root) >= run:
            return -1, NEW  # the list goes on from there
        return -j, n

    def _is_last_question(self, n: int, j: int) -> bool:
        """Whether `n` is the question that its lane ends with, and message `j` can be it.

        It waits for its answer, or the host has another answer to it than the one recorded.
        """
        entries, end = self.log.entries, self.log.leaf(self.log.root(n))
        if end is None or entries[n].role != "user":
            return False
        line = self.matcher.line
        if j < len(line) - 1 and line[j + 1].role == "assistant" and not entries[end].calls:
            while end > n and entries[end].role == "assistant":
                end = self.log.parents[end]
        while end > n and (entries[end].role == "user" or entries[end].calls):
            end = self.log.parents[end]
        return end == n

    def _best(self, j: int, candidates: list[int]) -> int:
        """The candidate that most speaks for; the newest among equals."""
        end = j == len(self.matcher.line) - 1
        if end and self.matcher.line[j].calls:  # the turn goes on here: nothing follows yet
            candidates = [n for n in candidates if not any(self.log.children(n))] or candidates
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
            self.ambiguous.append(TIE)
        return newest

    def _rank(self, j: int, n: int) -> tuple[Rank, bool]:
        """What speaks for entry `n` as message `j`, strongest first; whether the list is its path."""
        m, entry = self.matcher.line[j], self.log.entries[n]
        run, whole = self._run(j, n)
        same_id = m.host_id is not None and m.host_id == entry.host_id
        same_lane = self.matcher.reader.lane_key == entry.lane_key
        # The newest message may be said again; one that others follow was said here.
        near = islice(self.log.children(n), CANDIDATES) if j < len(self.matcher.line) - 2 else ()
        followed = any(self.matcher.same(c, j + 1) for c in near)
        same_form = m.key == entry.key and m.calls == entry.calls
        return (run, same_id, same_lane, followed, same_form), whole

    def _run(self, j: int, n: int) -> tuple[int, bool]:
        """How many messages, backward from `j`, follow the parents of `n`; whether all of them do."""
        entries, count = self.log.entries, 0
        while j >= 0:
            if n < 0 or not self.matcher.same(n, j):
                return count, False
            count += 1
            n, results = self.log.parents[n], self.matcher.results_before(j)
            if not results:
                n = self._over_calls(n, j - 1)
            if n >= 0 and bool(entries[n].calls) != bool(results):
                return count, False  # a call without results, or results without one: cut here
            if not all(self._has_result(n, result) for result in results):
                return count, False
            count += len(results)
            j -= 1
        return count, True

    def _has_result(self, n: int, result: Incoming) -> bool:
        """Whether `n` is the call that this result was stored under."""
        stored = (self.log.entries[r] for r in self.log.results(n))
        return any(e.key == result.key and e.call_id == result.call_id for e in stored)

    # Before the anchor everything was answered once: it is old.

    def _place_older(self, j: int, anchor: int) -> None:
        matcher, parents = self.matcher, self.log.parents
        matcher.take(j, anchor)
        parent = parents[anchor]
        for i in range(j - 1, -1, -1):
            if i < len(self._known) and self._follow_known(i, parent):
                return
            if parent >= 0 and parent not in matcher.used and matcher.same(parent, i):
                matcher.take(i, parent)
                parent = parents[parent]
            else:
                parent = self._leave_path(i, parent)

    def _follow_known(self, i: int, parent: int) -> bool:
        """Place the rest of the line at once if its known places are this very path.

        They are compared with the path, not believed: they change the cost, never the answer.
        """
        known, self._known = self._known[: i + 1], []
        path: list[int] = []
        while parent >= 0 and len(path) <= i:
            path.append(parent)
            parent = self.log.parents[parent]
        path.reverse()
        if path != known:
            return False
        self.matcher.places[: i + 1] = path
        self.matcher.used.update(path)
        self.from_known = i + 1
        return True

    def _leave_path(self, j: int, parent: int) -> int:
        """Place an older message that is not the next one up the path; return where to go on."""
        n = self._find_older(j, parent)
        if n is None:
            return self._insert(j, parent)
        self.matcher.take(j, n)
        if parent < 0 or self.matcher.is_ancestor(n, parent):
            return self.log.parents[n]
        return self.log.parents[parent] if self.log.entries[n].replaces == parent else parent

    def _find_older(self, j: int, parent: int) -> int | None:
        """The entry of a message off the path: an edit, a trimmed middle, else any (an aside)."""
        edits = self.log.replacements(parent) if parent >= 0 else ()
        for n in (self.matcher.by_host_id(j), *reversed(edits)):
            if n is not None and n not in self.matcher.used and self.matcher.same(n, j):
                return n
        places = self.matcher.places
        below = next(places[i] for i in range(j + 1, len(places)) if places[i] != NEW)
        found = self.matcher.candidates(j, below=below) or self.matcher.candidates(j)
        return self._nearest(found, parent) if found else None

    def _nearest(self, candidates: list[int], n: int) -> int:
        """The candidate beside `n` (below it on another branch), else nearest above it, else the newest."""
        for c in candidates:
            if c > n and self.matcher.is_ancestor(n, c):
                return c
        wanted = set(candidates)
        while n >= candidates[-1]:
            if n in wanted:
                return n
            n = self.log.parents[n]
        return candidates[0]

    def _insert(self, j: int, parent: int) -> int:
        edited = self.matcher.by_host_id(j)
        if edited is None:
            edited = self._gap(j)
        self.novelties[j] = Novelty(aside=True, replaces=edited)
        if edited is None or not self.matcher.is_ancestor(edited, parent):
            return parent
        return self.log.parents[edited]

    def _gap(self, j: int) -> int | None:
        """The one entry between the neighbours of message `j`: the host edited it."""
        m, matcher, below = self.matcher.line[j], self.matcher, self.matcher.places[j + 1]
        gap = NEW if below == NEW else self.log.parents[below]
        if gap == NEW or gap in matcher.used or m.origin == Origin.HOST_SUMMARY:
            return None
        above = self._over_calls(self.log.parents[gap], j - 1)
        if not matcher.compatible(gap, m) or (j == 0) != (above < 0):
            return None
        return gap if j == 0 or matcher.same(above, j - 1) else None

    def _over_calls(self, n: int, j: int) -> int:
        """Up from `n` to what message `j` can be: a host may leave out older tool calls."""
        while j >= 0 and n >= 0 and self.log.entries[n].calls and not self.matcher.line[j].calls:
            n = self.log.parents[n]
        return n

    # After the anchor is the current turn.

    def _place_turn(self, start: int, anchor: int) -> None:
        """A message is old only if its twin hangs on this predecessor; from the first new one on, all are new."""
        matcher = self.matcher
        current, fresh, stored = anchor, False, anchor
        for j in range(start, len(matcher.line)):
            n = self._by_facts(j, stored)
            if n is None and not fresh:
                n = self._first(j) if current == NEW else self._follows(j, current)
            if n is None and not fresh:
                n = self._resumes(j, current)
            if n is None:
                n = self._said_elsewhere(j, anchor)
            if n is None:
                self.novelties[j] = self._novelty(j, stored, NEW if fresh else current)
                fresh, current = True, NEW
            else:
                matcher.take(j, n)
                current = stored = n

    def _by_facts(self, j: int, stored: int) -> int | None:
        """The entry that the framework's id or the adapter's hint says."""
        matcher, last = self.matcher, j == len(self.matcher.line) - 1
        hint = self.flags.retry_of if last else None
        for n in (hint, matcher.by_host_id(j, after=stored)):
            if n is not None and n not in matcher.used and matcher.same(n, j):
                return n
        return None

    def _follows(self, j: int, current: int) -> int | None:
        """The unused twin of message `j` that hangs on `current`."""
        matcher, m = self.matcher, self.matcher.line[j]
        places = [current]
        while (edited := self.log.entries[places[-1]].replaces) is not None:
            places.append(edited)  # what stood here before the host edited it
        near = islice(self.log.children(current), CANDIDATES)
        for n in chain(near, matcher.candidates(j)):
            if n in matcher.used or self.log.entries[n].key != m.key:
                continue
            if matcher.compatible(n, m) and any(matcher.hangs_on(n, on) for on in places):
                self._note_regenerate(j, n)
                return n
        if m.role == "assistant":
            for n in matcher.answers(current, calls=bool(m.calls)):
                if n not in matcher.used and matcher.rewritten(n, j):
                    return n
        return None

    def _resumes(self, j: int, current: int) -> int | None:
        """The question at the end of this lane, if the host cut away what lies before it."""
        if current == NEW or j == len(self.matcher.line) - 1:
            return None
        for n in self.matcher.candidates(j):
            if self._is_last_question(n, j) and self.matcher.is_ancestor(current, n):
                return n
        return None

    def _first(self, j: int) -> int | None:
        """The root that message `j` is, where the list has no predecessor for it."""
        if self.flags.new_conversation:
            return None
        if len(self.matcher.line) == 1:
            return self._lone(j)
        return self._root()

    def _root(self) -> int | None:
        """The lane that the list starts as, without history before its first message."""
        lane_key, entries = self.matcher.reader.lane_key, self.log.entries
        roots = self.matcher.roots(0)
        if len(roots) < 2:
            return next(iter(roots), None)
        return max(roots, key=lambda n: (self._run_on(n), entries[n].lane_key == lane_key, n))

    def _run_on(self, n: int) -> int:
        """How many messages of the list, from its first on, follow the children of `n`."""
        line = self.matcher.line
        for j in range(1, len(line)):
            children = islice(self.log.children(n), CANDIDATES)
            child = next((c for c in children if self.matcher.same(c, j)), None)
            if child is None:
                return j
            n = child
        return len(line)

    def _lone(self, j: int) -> int | None:
        """A message without history: a retry if its twin waits for an answer, else said again."""
        twins = self.matcher.roots(j)
        waiting = [n for n in twins if not self._answered(n)]
        in_flight = {*map(self._question, self.flags.in_flight)}
        failed = {*map(self._question, self.flags.failed)}
        for n in twins:
            if n in in_flight:
                self._note(PARALLEL)
                return n
        for n in waiting:
            if n in failed:
                return n
            if n == self.log.newest_root(self.log.entries[n].lane_key):
                self._note(RETRY)
                return n
        if twins:
            self._note(STALE if waiting else REPETITION)
        return None

    def _question(self, n: int) -> int:
        """The message whose turn `n` belongs to: tool calls lie between."""
        while self.log.entries[n].calls and self.log.parents[n] >= 0:
            n = self.log.parents[n]
        return n

    def _answered(self, n: int) -> bool:
        lane_key = self.matcher.reader.lane_key
        return any(self.log.entries[a].lane_key == lane_key for a in self.matcher.answers(n))

    def _said_elsewhere(self, j: int, anchor: int) -> int | None:
        """Another agent's answer, committed by its own call since the anchor."""
        author = self.matcher.line[j].author
        if author is None or author == self.matcher.reader.agent:
            return None
        entries = self.log.entries
        found = [n for n in self.matcher.candidates(j) if entries[n].role == "assistant"]
        return min((n for n in found if n > anchor), default=None)

    def _novelty(self, j: int, stored: int, current: int) -> Novelty:
        """How new message `j` relates to what already follows its predecessor."""
        matcher, m = self.matcher, self.matcher.line[j]
        edited = matcher.by_host_id(j, after=stored)
        if edited is not None or current == NEW:
            return Novelty(replaces=edited)
        if m.role == "assistant":
            answers = matcher.answers(current, calls=bool(m.calls))
            variant_of = next((n for n in answers if matcher.compatible(n, m)), None)
            if variant_of is not None:
                self._note(REWRITTEN)
            return Novelty(variant_of=variant_of)
        siblings = islice(self.log.children(current), CANDIDATES)
        if any(self.log.entries[n].role == "user" for n in siblings):
            self._note(BRANCH)
        return Novelty()

    def _note_regenerate(self, j: int, n: int) -> None:
        last = j == len(self.matcher.line) - 1 and self.matcher.line[j].role == "user"
        known = self.flags.failed | self.flags.in_flight
        if last and n not in known and self._answered(n):
            self._note(REGENERATE)

    def _note(self, code: str) -> None:
        if code:
            self.ambiguous.append(code)
