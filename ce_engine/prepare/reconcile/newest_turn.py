"""The current turn of a host's list, after the newest known answer: what was said, and what is new."""

from __future__ import annotations

from itertools import chain, islice

from ce_engine.prepare.reconcile.align import Alignment, Novelty, ReconcileFlags
from ce_engine.prepare.reconcile.match import CANDIDATES, NEW, Ambiguity


class NewestTurn:
    """Places the messages after the anchor.

    One is old only if its twin hangs on this very predecessor; from the first new one on, all are
    new, but for what a fact says (the framework's id, a hint, another agent's recorded answer).
    """

    def __init__(self, alignment: Alignment, flags: ReconcileFlags) -> None:
        self.matcher = alignment.matcher
        self.log = alignment.log
        self.flags = flags
        self.anchor = NEW if alignment.anchor < 0 else self.matcher.places[alignment.anchor]
        self.last = len(self.matcher.line) - 1
        current = stored_entry = self.anchor
        fresh = False
        for j in range(alignment.anchor + 1, self.last + 1):
            n = self._find(j, current, stored_entry, fresh=fresh)
            if n is not None:
                self.matcher.take(j, n)
                current = stored_entry = n
            else:
                alignment.novelties[j] = self._novelty(j, stored_entry, current)
                fresh, current = True, NEW

    def _find(self, j: int, current: int, stored_entry: int, *, fresh: bool) -> int | None:
        n = self._by_facts(j, stored_entry)
        if n is None and not fresh:
            n = self._start() if current == NEW else self._follows(j, current)
        return self._said_elsewhere(j) if n is None else n

    def _by_facts(self, j: int, stored_entry: int) -> int | None:
        """The entry that the adapter's hint or the framework's id says."""
        hint = self.flags.retry_of if j == self.last else None
        for n in (hint, self.matcher.by_host_id(j, after=stored_entry)):
            if n is not None and n not in self.matcher.used and self.matcher.same(n, j):
                return n
        return None

    def _follows(self, j: int, current: int) -> int | None:
        """The unused twin of message `j` that hangs on `current`, or on what the host edited into it."""
        matcher, m = self.matcher, self.matcher.line[j]
        places = [current]
        while (edited := self.log.entries[places[-1]].replaces) is not None:
            places.append(edited)
        for n in chain(islice(self.log.children(current), CANDIDATES), matcher.candidates(j)):
            if n in matcher.used or self.log.entries[n].key != m.key:
                continue
            if matcher.compatible(n, m) and any(matcher.hangs_on(n, place) for place in places):
                self._note_regenerate(j, n)
                return n
        if m.role == "assistant":
            answers = matcher.answers(current, calls=bool(m.calls))
            return next((n for n in answers if matcher.rewritten(n, j)), None)
        return self._resumes(j, current)

    def _resumes(self, j: int, current: int) -> int | None:
        """The question at the end of this lane, if the host cut away what lies before it."""
        if j < self.last:
            for n in self.matcher.candidates(j):
                if self.matcher.is_last_question(n, j) and self.matcher.is_ancestor(current, n):
                    return n
        return None

    def _start(self) -> int | None:
        """The root that the first message of the list is."""
        if self.flags.new_conversation:
            return None
        return self._alone() if self.last == 0 else self.matcher.root()

    def _alone(self) -> int | None:
        """A message without history: a retry if its twin waits for an answer, else said again."""
        twins = self.matcher.roots()
        in_flight = {*map(self._question, self.flags.in_flight)}
        for n in twins:
            if n in in_flight:
                self.matcher.ambiguous.append(Ambiguity.PARALLEL)
                return n
        failed = {*map(self._question, self.flags.failed)}
        waiting = [n for n in twins if not self._is_answered(n)]
        for n in waiting:
            if n in failed:
                return n
            if n == self.log.newest_root(self.log.entries[n].lane_key):
                self.matcher.ambiguous.append(Ambiguity.RETRY)
                return n
        if twins:
            self.matcher.ambiguous.append(Ambiguity.STALE if waiting else Ambiguity.REPETITION)
        return None

    def _question(self, n: int) -> int:
        """The message whose turn `n` belongs to: tool calls lie between."""
        while self.log.entries[n].calls and self.log.parents[n] >= 0:
            n = self.log.parents[n]
        return n

    def _is_answered(self, n: int) -> bool:
        """Whether this lane has an answer to `n`: another agent may still give its own."""
        lane_key = self.matcher.reader.lane_key
        return any(self.log.entries[a].lane_key == lane_key for a in self.matcher.answers(n))

    def _said_elsewhere(self, j: int) -> int | None:
        """Another agent's answer, committed by its own call since the anchor."""
        author = self.matcher.line[j].author
        if author is None or author == self.matcher.reader.agent:
            return None
        candidates = (n for n in self.matcher.candidates(j) if n > self.anchor)
        return min((n for n in candidates if self.log.entries[n].role == "assistant"), default=None)

    def _novelty(self, j: int, stored_entry: int, current: int) -> Novelty:
        """How new message `j` relates to what already follows its predecessor."""
        matcher, m = self.matcher, self.matcher.line[j]
        edited = matcher.by_host_id(j, after=stored_entry)
        if edited is not None or current == NEW:
            return Novelty(replaces=edited)
        if m.role == "assistant":
            answers = matcher.answers(current, calls=bool(m.calls))
            variant_of = next((n for n in answers if matcher.compatible(n, m)), None)
            if variant_of is not None:
                matcher.ambiguous.append(Ambiguity.REWRITTEN)
            return Novelty(variant_of=variant_of)
        siblings = islice(self.log.children(current), CANDIDATES)
        if any(self.log.entries[n].role == "user" for n in siblings):
            matcher.ambiguous.append(Ambiguity.BRANCH)
        return Novelty()

    def _note_regenerate(self, j: int, n: int) -> None:
        is_task = j == self.last and self.matcher.line[j].role == "user"
        if is_task and n not in self.flags.failed | self.flags.in_flight and self._is_answered(n):
            self.matcher.ambiguous.append(Ambiguity.REGENERATE)
