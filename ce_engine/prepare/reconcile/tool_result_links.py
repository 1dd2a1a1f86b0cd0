"""Which call a tool result of the host's list belongs to, and which stored result it is."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

from ce_engine.prepare.reconcile.match import NEW, IncomingMessage
from ce_engine.schema.message_forest import MessageForest


Ids = set[str | None]
"""The ids of a result's call: the host's, and the one that the call had when it was stored."""


class ToolResultLinks:
    """Matches tool results as leaves under their call, in any order, each stored one at most once.

    A result belongs to the call before it in the list. One whose call the host cut away (an orphan)
    is looked for among all results, and belongs to the call that it has there; a new one, at the end of
    the list, to the newest call with its id.
    """

    def __init__(self, log: MessageForest, placed: Sequence[int | None]) -> None:
        self.log = log
        self._placed = placed
        self._counts: dict[int, tuple[Counter[str | None], Counter[str | None]]] = {}

    def match(
        self, m: IncomingMessage, own: int | None, call_ids: Sequence[str], below: int | None
    ) -> tuple[int, int | None]:
        """The entry that result `m` is, or `NEW`, and the call that it answers, if that is known.

        Args:
            m: the result.
            own: the stored message before it in the list.
            call_ids: the ids of the calls of that message, as the list has them: they may have changed.
            below: the next stored message of the line.
        """
        call, ids = own, {m.call_id}
        is_orphan = call is None or (m.call_id is not None and m.call_id not in call_ids)
        if is_orphan or call is None:
            call = self.log.caller(m.call_id) if below is None else None
        else:
            ids.add(self._stored_id(call, m.call_id, call_ids))
        n = self._find(m, call, ids, below)
        if n != NEW:
            self._used.add(n)
            if is_orphan and call is not None:  # ids are given again: it may be an older one's
                call = self.log.entries[n].parent
        elif call is not None:
            self._counted(call)[1][m.call_id] += 1
        return n, call

    @cached_property
    def _used(self) -> set[int]:
        """The entries that are taken: at the first result those of the messages before it."""
        return {n for n in self._placed if n is not None}

    def _stored_id(self, call: int, call_id: str | None, call_ids: Sequence[str]) -> str | None:
        """The id that the call had when it was stored: the same position among the calls."""
        calls = self.log.entries[call].calls
        if call_id is None or call_id in calls or len(calls) != len(call_ids):
            return call_id
        return calls[call_ids.index(call_id)]

    def _find(self, m: IncomingMessage, call: int | None, ids: Ids, below: int | None) -> int:
        if call is None:
            return self._anywhere(m, below)
        n = self._equal(call, ids, m.key)
        if n != NEW or self._has_room(call, ids):
            return n
        n = self._anywhere(m, below)
        return n if n != NEW else self._edited(call, ids)

    def _unused(self, call: int) -> Iterator[int]:
        return (r for r in self.log.results(call) if r not in self._used)

    def _equal(self, call: int, ids: Ids, key: bytes) -> int:
        """The result of the call with this id and content; else with this content where an id is missing."""
        entries = self.log.entries
        equal = [r for r in self._unused(call) if entries[r].key == key]
        matches = [r for r in equal if entries[r].call_id in ids]
        nameless = equal if None in ids else [r for r in equal if entries[r].call_id is None]
        return next(iter(matches or nameless), NEW)

    def _has_room(self, call: int, ids: Ids) -> bool:
        """Whether the call still waits for a result that this one can be."""
        call_counts, there = self._counted(call)
        if None in ids:
            return there.total() < call_counts.total()
        return sum(there[i] for i in ids) < sum(call_counts[i] for i in ids)

    def _counted(self, call: int) -> tuple[Counter[str | None], Counter[str | None]]:
        """The ids that a message asks for and those of the results that it has, counted once a list."""
        if call not in self._counts:
            there = (self.log.entries[r].call_id for r in self.log.results(call))
            self._counts[call] = Counter(self.log.entries[call].calls), Counter(there)
        return self._counts[call]

    def _edited(self, call: int, ids: Ids) -> int:
        """The result of the same call with other content: the host shortened or cleared it."""
        entries = self.log.entries
        return next((r for r in self._unused(call) if entries[r].call_id in ids), NEW)

    def _anywhere(self, m: IncomingMessage, below: int | None) -> int:
        """The newest result with this id and content, of any call, older than the next known message."""
        equal = self.log.results_by_key(m.key)
        i = len(equal) if below is None else bisect_left(equal, below)
        older = (n for n in reversed(equal[:i]) if n not in self._used)
        return next((n for n in older if self.log.entries[n].call_id == m.call_id), NEW)
