"""Which call a tool result of the host's list belongs to, and which stored result it is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from ce_engine.prepare.match import NEW, Incoming
from ce_engine.schema.log import Log


ANCESTORS = 32
"""Messages above an orphan that are searched for its call."""


class Results:
    """Matches tool results as leaves under their call, in any order, each stored one at most once.

    A result belongs to the call before it in the list. One whose call the host cut away (an orphan)
    belongs to a call above the next message that is known.
    """

    def __init__(self, log: Log, used: set[int]) -> None:
        self.log = log
        self.used = used
        self._added: dict[int, list[str | None]] = {}

    def match(
        self, m: Incoming, own: int | None, asked: Sequence[str], below: int | None
    ) -> tuple[int, int | None]:
        """The entry that result `m` is, or `NEW`, and the call that it answers, if one is known.

        Args:
            m: the result.
            own: the stored message before it in the list.
            asked: the ids of the calls of that message, as the list has them: they may have changed.
            below: the next stored message of the line.
        """
        mine: list[tuple[int, str | None]] = []
        if own is not None and (m.call_id is None or m.call_id in asked):
            mine = [(own, self._stored_id(own, m.call_id, asked))]
        above = [(n, m.call_id) for n in self._calls_above(m, below) if n != own]
        for owners, choose in (
            (mine, self._equal),
            (mine, self._room),
            (above, self._equal),
            (mine, self._edited),
            (above, self._room),
            (above, self._edited),
        ):
            for owner, call_id in owners:
                n = choose(owner, call_id, m.key)
                if n is not None:
                    return self._take(n, owner, call_id), owner
        own = own if mine else None
        return self._take(self._anywhere(m, below), own, m.call_id), own

    def _stored_id(self, own: int, call_id: str | None, asked: Sequence[str]) -> str | None:
        """The id that the call had when it was stored: the same position among the calls."""
        calls = self.log.entries[own].calls
        if call_id is None or call_id in calls or len(calls) != len(asked):
            return call_id
        return calls[asked.index(call_id)]

    def _take(self, n: int, owner: int | None, call_id: str | None) -> int:
        if n != NEW:
            self.used.add(n)
        elif owner is not None:
            self._added.setdefault(owner, []).append(call_id)
        return n

    def _unused(self, owner: int) -> Iterator[int]:
        return (r for r in self.log.results(owner) if r not in self.used)

    def _equal(self, owner: int, call_id: str | None, key: bytes) -> int | None:
        """The stored result with this id and content; else with this content where an id is missing."""
        entries = self.log.entries
        equal = [r for r in self._unused(owner) if entries[r].key == key]
        for wanted in (call_id, None):
            for r in equal:
                if entries[r].call_id == wanted or call_id is None:
                    return r
        return None

    def _room(self, owner: int, call_id: str | None, _: bytes) -> int | None:
        """`NEW` where the call still waits for a result that this one can be."""
        calls = self.log.entries[owner].calls
        ids = [self.log.entries[r].call_id for r in self.log.results(owner)]
        ids += self._added.get(owner, [])
        if call_id is None:
            return NEW if len(ids) < len(calls) else None
        return NEW if ids.count(call_id) < calls.count(call_id) else None

    def _edited(self, owner: int, call_id: str | None, _: bytes) -> int | None:
        """The stored result of the same call with other content: the host shortened or cleared it."""
        entries = self.log.entries
        return next((r for r in self._unused(owner) if entries[r].call_id == call_id), None)

    def _anywhere(self, m: Incoming, below: int | None) -> int:
        """The stored result with this id and content whose call cannot be told."""
        equal = self.log.results_by_key(m.key)
        i = len(equal) if below is None else bisect_left(equal, below)
        older = (n for n in reversed(equal[:i]) if n not in self.used)
        return next((n for n in older if self.log.entries[n].call_id == m.call_id), NEW)

    def _calls_above(self, m: Incoming, below: int | None) -> Iterable[int]:
        if below is None:
            caller = self.log.caller(m.call_id)
            return () if caller is None else (caller,)
        found, n = [], self.log.parents[below]
        for _ in range(ANCESTORS):
            if n < 0:
                break
            if self.log.entries[n].calls:
                found.append(n)
            n = self.log.parents[n]
        return found
