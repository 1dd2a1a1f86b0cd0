"""`ce report --follow`: turns as they end, whichever process makes them."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import typer

from ce_engine.apps.cli.reading import find_session, reading
from ce_engine.apps.cli.report_turns import SessionTurns, as_plain, print_end, read_turns, turns_of
from ce_engine.apps.present.output import console
from ce_engine.apps.present.turn_table import TurnTable
from ce_engine.audit.operators import operators_scope
from ce_engine.errors import SessionNotFoundError, StoreUnavailableError
from ce_engine.ports.store import Store
from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.scope import Scope
from ce_engine.text.tokens.prices import PriceTable


EVERY_S = 0.5
"""How often the store is asked whether anything is new: one cheap read."""

PATIENCE = 60
"""How many times in a row it may have no answer."""

Where = tuple[str | None, str, str, str | None]
"""Store, session, account and user, as the options name them."""


def following(where: Where, prices: PriceTable, since: str, *, full: bool, as_json: bool) -> None:
    """Print turns until Ctrl-C, then the sums."""
    followed = _Followed(prices, since, full=full, as_json=as_json)
    with suppress(KeyboardInterrupt):
        asyncio.run(followed.run(where))
    followed.end()


class _Followed:
    """A session that is looked at again and again."""

    def __init__(self, prices: PriceTable, since: str, *, full: bool, as_json: bool) -> None:
        self._prices, self._since, self._as_json = prices, since, as_json
        self._screen = console()
        self._table = TurnTable(self._screen, full=full, grows=True)
        self._last = SessionTurns([], None, 0)
        self._printed: set[str] = set()

    async def run(self, where: Where) -> None:
        """Look until somebody ends it.

        Raises:
            SessionNotFoundError: it is not there, or not any more.
            StoreUnavailableError: the store has no answer for a while.
        """
        url, session, account, user = where
        async with reading(url) as store:
            info = await find_session(store, session, account=account, user=user)
            scope = await operators_scope(store, info)
            version, silent = -1, 0
            while True:
                try:
                    now = (await store.version(scope)).version
                    if now != version:
                        await self._look(store, scope)
                    version, silent = now, 0
                except StoreUnavailableError:
                    silent += 1
                    if silent > PATIENCE:
                        raise
                await asyncio.sleep(EVERY_S)

    async def _look(self, store: Store, scope: Scope) -> None:
        rows, document = await read_turns(store, scope)
        if document is None:
            raise SessionNotFoundError(f"session {scope.session_id!r} was deleted just now")
        result = turns_of(rows, document, self._prices, self._since)
        ended = [
            (place, item)
            for place, item in enumerate(result.turns)
            if item.row.status is not TurnStatus.OPEN and item.row.turn_id not in self._printed
        ]
        self._printed |= {item.row.turn_id for _, item in ended}
        self._last = result
        if self._as_json:
            for place, item in ended:
                plain = as_plain(item, result.costs, place)
                typer.echo(json.dumps(plain, ensure_ascii=True))
        else:
            self._table.print([item for _, item in ended])

    def end(self) -> None:
        """Print the sums of what there is by now."""
        if self._as_json:
            return
        if self._last.turns:
            print_end(self._screen, self._table, self._last)
        else:
            self._screen.print("no turns ended meanwhile")
