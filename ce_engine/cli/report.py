"""`ce report`: what of each turn was sent, kept, dropped, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ce_engine.cli.options import Account, AsJson, SessionId, StoreUrl, TurnChoice, User
from ce_engine.cli.output import console, print_json
from ce_engine.cli.reading import find_session, reading
from ce_engine.cli.turns import Told, print_over_budget, print_summary, print_turn, print_turns
from ce_engine.schema.report import report_of
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.scope import Scope


def report(
    session: SessionId,
    *,
    turn: TurnChoice = None,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Tell what of each turn was sent, kept, dropped, and why.

    With --json, a list of turns, oldest first: turn (its number), turn_id, status, attempt, ... and
    report, the whole stored report or null.
    """
    told = _told(asyncio.run(_read(store, session, account, user)))
    chosen = told if turn is None else [_one(told, turn, session)]
    if as_json:
        print_json([item.as_json() for item in chosen])
    elif turn is not None:
        print_turn(console(), chosen[0])
    elif told:
        screen = console()
        print_over_budget(screen, told)
        print_turns(screen, told)
        print_summary(screen, told)
    else:
        console().print("no turns: nothing was prepared in this session")


async def _read(url: str | None, session_id: str, account: str, user: str | None) -> list[TurnRow]:
    async with reading(url) as store:
        info = await find_session(store, session_id, account=account, user=user)
        scope = Scope(session_id=session_id, user_id=info.user_id, account_id=info.account_id)
        return await store.list_turns(scope)


def _told(rows: Sequence[TurnRow]) -> list[Told]:
    return [
        Told(turn, row, report_of(row.turn_id, row.report))
        for turn, row in enumerate(rows, start=1)
    ]


def _one(told: Sequence[Told], choice: str, session_id: str) -> Told:
    from ce_engine.replaying import find_turn  # noqa: PLC0415 - brings half of the engine

    return told[find_turn([item.row for item in told], choice, session_id)]
