"""`ce report`: what of each turn was sent, kept, dropped, and why; what it cost, and what it would have cost without us."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from ce_engine.apps.cli.options import (
    Account,
    AsJson,
    Prices,
    SessionId,
    StoreUrl,
    TurnChoice,
    User,
)
from ce_engine.apps.cli.reading import engine_over, find_scope, find_session, prices_of, reading
from ce_engine.apps.present.brought_in import print_brought_in
from ce_engine.apps.present.cost_lines import SessionCosts, turn_lines
from ce_engine.apps.present.output import console, print_json, print_under
from ce_engine.apps.present.turns import (
    Told,
    print_decisions,
    print_ids,
    print_over_budget,
    print_summary,
    print_turn,
    print_turns,
)
from ce_engine.audit.compare.reading import calls_of
from ce_engine.audit.operators import operators_scope
from ce_engine.errors import ContextEngineError
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.replay import Explanation
from ce_engine.schema.report import report_of
from ce_engine.schema.rows import TurnRow
from ce_engine.text.tokens.prices import PriceTable, prices_here


def report(
    session: SessionId,
    *,
    turn: TurnChoice = None,
    prices: Prices = None,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Tell what of each turn was sent, kept, dropped, and why; what it cost, and would have cost without us.

    With --turn, also what was brought in, piece by piece, with the score of each and what that is made of.

    With --json, a list of turns, oldest first: turn (its number), turn_id, status, attempt, ..., report, the
    whole stored report or null, and cost: sent, untouched (null where nobody can say), answer, currency;
    with --turn also brought_in.
    """
    table = prices_of(prices) or prices_here()
    rows, document = asyncio.run(_read(store, session, account, user))
    told, spent = _told(rows, document, table)
    place = None if turn is None else _place(told, turn, session)
    found = (
        None
        if place is None
        else asyncio.run(_explained(store, session, account, user, told[place]))
    )
    if as_json:
        chosen = told if place is None else [told[place]]
        print_json([_plain(item, spent, found) for item in chosen])
    elif place is not None:
        _print_one(told, place, spent, found)
    elif told:
        screen = console()
        if spent is not None and (line := spent.headline()):
            print_under(screen, 0, line, style="bold")
        print_over_budget(screen, told)
        print_turns(screen, told)
        print_summary(screen, told, spent.lines() if spent is not None else ())
    else:
        console().print("no turns: nothing was prepared in this session")


async def _read(
    url: str | None, session_id: str, account: str, user: str | None
) -> tuple[list[TurnRow], SessionDocument | None]:
    async with reading(url) as store:
        info = await find_session(store, session_id, account=account, user=user)
        scope = await operators_scope(store, info)
        return await store.list_turns(scope), await store.get_session(scope)


async def _explained(
    url: str | None, session_id: str, account: str, user: str | None, item: Told
) -> Explanation | None:
    """What was brought in; `None` of a turn that cannot be made again, such as a helper's."""
    with suppress(ContextEngineError):  # the rest of the report needs no engine
        async with engine_over(url) as engine:
            scope = await find_scope(engine.store, session_id, account=account, user=user)
            return await engine.explain(scope, item.row.turn_id)
    return None


def _told(
    rows: Sequence[TurnRow], document: SessionDocument | None, prices: PriceTable
) -> tuple[list[Told], SessionCosts | None]:
    spent = SessionCosts.of(calls_of(document, rows), prices) if document is not None else None
    told = [
        Told(turn, row, report_of(row.turn_id, row.report))
        for turn, row in enumerate(rows, start=1)
    ]
    for place, item in enumerate(told):
        if spent is not None and item.report is not None:
            item.cost = spent.cells(place)
    return told, spent


def _plain(item: Told, spent: SessionCosts | None, found: Explanation | None) -> dict[str, object]:
    plain = item.as_json()
    if spent is not None:
        cost = spent.costs.each[item.turn - 1]
        currency = spent.costs.prices.currency
        sums = {"sent": cost.sent, "untouched": cost.untouched, "answer": cost.answer}
        plain["cost"] = {**sums, "currency": currency}
    if found is not None:
        plain["brought_in"] = found.model_dump(mode="json")
    return plain


def _print_one(
    told: Sequence[Told], place: int, spent: SessionCosts | None, found: Explanation | None
) -> None:
    screen, item = console(), told[place]
    print_turn(screen, item, turn_lines(spent, place) if spent is not None else ())
    if item.report is None:
        print_ids(screen, item)
        return
    if found is None:
        said = "it cannot be made again (a helper's call, a store without its secret, no stored report)"
        print_under(screen, 0, f"\nBrought in for this turn: {said}")
    else:
        turns = {one.row.tip_message_id or "": one.turn for one in reversed(told)}
        print_brought_in(screen, found, turns)
    print_decisions(screen, item.report)
    print_ids(screen, item)


def _place(told: Sequence[Told], choice: str, session_id: str) -> int:
    from ce_engine.audit.replay import find_turn  # noqa: PLC0415 - brings half of the engine

    return find_turn([item.row for item in told], choice, session_id)
