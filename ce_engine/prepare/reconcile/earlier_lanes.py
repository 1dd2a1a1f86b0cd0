"""What may be brought in where the host sent no history: earlier lanes, newest first, walked on demand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from ce_engine.schema.message_forest import MessageForest


@dataclass(frozen=True, slots=True)
class EarlierLanes:
    """The answered part of each earlier lane, as entries in the order of a model's input.

    Iterating yields the newest lane first and costs what is taken: a caller stops when its budget
    is full. Without unanswered questions and without calls whose results are missing.

    Attributes:
        before: lanes whose root is older than this entry.
        lane_key: only lanes with this key.
        without: roots that are left out (in flight).
    """

    log: MessageForest
    before: int = 0
    lane_key: str = ""
    without: frozenset[int] = frozenset()

    def __iter__(self) -> Iterator[list[int]]:
        for root in self.roots():
            lane = self.answered(root)
            if lane:
                yield lane

    def has(self, root: int, most: int) -> bool:
        """Whether a lane is one of the newest `most`."""
        roots = self.log.roots
        older = bisect_left(roots, self.before) - bisect_left(roots, root)
        is_root = root < self.before and self.log.leaf(root) is not None and older <= most
        own = self.log.entries[root].lane_key == self.lane_key
        return is_root and own and root not in self.without

    def answered(self, root: int) -> list[int]:
        """The entries of a lane; found out again only when it changed."""
        touched = self.log.touched(root)
        record = self.log.answered.get(root)
        if record is None or record[0] != touched:
            record = self.log.answered[root] = (touched, self._answered(root))
        return record[1]

    def roots(self) -> Iterator[int]:
        """The first entries of the lanes, newest first."""
        roots, entries = self.log.roots, self.log.entries
        for i in range(bisect_left(roots, self.before) - 1, -1, -1):
            if roots[i] not in self.without and entries[roots[i]].lane_key == self.lane_key:
                yield roots[i]

    def _answered(self, root: int) -> list[int]:
        log, leaf = self.log, self.log.leaf(root)
        edits = [self.edits(n) for n in ([] if leaf is None else log.path(leaf))]
        starts = {log.root(n) for forms in edits for n in forms} - {root}
        if any(log.leaf(start) is not None for start in starts):
            return []  # the host edited its start and went on from there: this lane is abandoned
        path = [forms[-1] for forms in edits]
        while path and (log[path[-1]].role != "assistant" or log[path[-1]].calls):
            path.pop()
        return [member for n in path for member in self.group(n)]

    def edits(self, n: int) -> list[int]:
        """Entry `n` and what the host made of it in its history, the newest form last."""
        forms = [n]
        while edits := [e for e in self.log.replacements(forms[-1]) if self.log[e].aside]:
            forms.append(edits[-1])
        return forms

    def group(self, n: int) -> list[int]:
        """Entry `n` with a result for each of its calls; nothing where one is missing."""
        entries, group = self.log.entries, [n]
        results = list(self.log.results(n))
        for call in entries[n].calls:
            # A result that answers no call by its id was stored under ids the host changed.
            result = next((r for r in results if entries[r].call_id == call), None)
            if result is None:
                strays = (r for r in results if entries[r].call_id not in entries[n].calls)
                result = next(strays, None)
            if result is None:
                return []
            results.remove(result)
            group.append(result)
        return group
