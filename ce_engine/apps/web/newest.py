"""Turns as they come: those of the sessions that were written to last, and each that is new or went on since."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from ce_engine.apps.web.index import SessionIndex
from ce_engine.apps.web.reading import Reader
from ce_engine.audit.operators import operators_scope
from ce_engine.errors import ContextEngineError
from ce_engine.schema.rows import SessionInfo, TurnRow


MOST_AT_ONCE = 50
"""Turns of a session that are told of at one time, the newest."""
REMEMBERED = 5000
"""Turns of which it is known what was told."""
WAIT_S = 15.0
"""So often something is said though there is nothing new, so that a lost line is noticed."""

Known = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn of a session with its number in it, from 1."""

    info: SessionInfo
    turn: int
    row: TurnRow

    @property
    def key(self) -> str:
        """A name of it in a page."""
        return f"{self.info.user_id}\n{self.info.session_id}\n{self.row.turn_id}"


class Newest:
    """What one page of somebody's is told of."""

    def __init__(self, reader: Reader, index: SessionIndex) -> None:
        self._reader, self._index = reader, index
        self._told: OrderedDict[str, Known] = OrderedDict()
        self._allowed: set[tuple[str, str]] = set()

    async def first(self, sessions: int, turns: int) -> list[NewTurn]:
        """The newest turns of the sessions that were written to last, the newest first."""
        lines = (await self._index.look())[:sessions]
        new_turns = [new for line in lines for new in await self._of(line.info, "")]
        new_turns.sort(key=lambda new: new.row.opened_at, reverse=True)
        return new_turns[:turns]

    async def coming(self, since: str, after: int) -> AsyncIterator[Sequence[NewTurn]]:
        """The turns that were opened at a time or later, as they come and go on; now and then none.

        Args:
            since: that time, as turns have it.
            after: the generation of the index that the page shows.
        """
        while not self._index.ended:
            after, infos = await self._index.changes(after, WAIT_S)
            new_turns = [new for info in infos for new in await self._of(info, since)]
            yield sorted(filter(self._is_news, new_turns), key=lambda new: new.row.opened_at)

    async def _of(self, info: SessionInfo, since: str) -> Iterable[NewTurn]:
        key = info.user_id, info.session_id
        try:
            scope = await operators_scope(self._reader.store, info)
            if key not in self._allowed:
                with self._reader.looking("ui live", "read", scope):
                    self._allowed.add(key)
            rows = await self._reader.store.list_turns(scope)
        except ContextEngineError:  # not for this person, deleted meanwhile, of a newer release
            return []
        first = max(0, len(rows) - MOST_AT_ONCE)
        numbered = enumerate(rows[first:], start=first + 1)
        return [NewTurn(info, turn, row) for turn, row in numbered if row.opened_at >= since]

    def _is_news(self, new: NewTurn) -> bool:
        state = (new.row.status.value, new.row.attempt, new.row.closed_at)
        if self._told.get(new.key) == state:
            return False
        self._told[new.key] = state
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        return True
