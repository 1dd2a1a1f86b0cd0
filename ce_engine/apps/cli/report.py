"""`ce report`: what of each turn was sent, kept, dropped, and why; what it cost, and what it would have cost without us."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
from ce_engine.apps.cli.report_turns import (
    SessionTurns,
    as_plain,
    print_end,
    read_turns,
    turns_of,
)
from ce_engine.apps.cli.times import time_of
from ce_engine.apps.present.brought_in import print_brought_in
from ce_engine.apps.present.cost_lines import turn_lines
from ce_engine.apps.present.output import console, moment, print_json, print_under
from ce_engine.apps.present.turn_table import TurnTable
from ce_engine.apps.present.turns import (
    NumberedTurn,
    print_decisions,
    print_ids,
    print_over_budget,
    print_turn,
)
from ce_engine.audit.operators import operators_scope
from ce_engine.audit.places.quoted_pieces import quoted_since
from ce_engine.errors import ConfigError, ContextEngineError
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.replay import Explanation
from ce_engine.schema.rows import TurnRow
from ce_engine.text.tokens.prices import prices_here


if TYPE_CHECKING:
    from rich.console import Console


Since = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Turns from then on: 2026-11-23, 2026-11-23T14:30Z, or 2h (ago).",
        show_default="all",
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Then new turns as they end; stop with Ctrl-C.")
]
Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Draw the turns instead: FILE.svg, or FILE.png, which needs Pillow."
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Whole reasons, none shortened.")]


def report(  # noqa: PLR0913 - one parameter an option
    session: SessionId,
    *,
    turn: TurnChoice = None,
    since: Since = "",
    follow: Follow = False,
    plot: Plot = None,
    full: Full = False,
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
    with --turn also brought_in. With --follow, an object a line.
    """
    _check(turn, since, plot, follow=follow)
    table, begin = prices_of(prices) or prices_here(), time_of(since)
    if follow:
        from ce_engine.apps.cli.report_follow import following  # noqa: PLC0415 - only where asked for

        following((store, session, account, user), table, begin, full=full, as_json=as_json)
        return
    rows, document = asyncio.run(_read(store, session, account, user))
    result = turns_of(rows, document, table, begin)
    if plot is not None:
        _draw(plot, session, result)
    if turn is not None:
        item = result.turns[place := _place(result.turns, turn, session)]
        explanation = asyncio.run(_explained(store, session, account, user, item))
        if as_json:
            print_json([as_plain(item, result.costs, place, explanation)])
        else:
            _print_one(result, place, explanation)
    elif as_json:
        print_json([as_plain(item, result.costs, n) for n, item in enumerate(result.turns)])
    elif plot is not None:
        print_under(console(), 0, f"{len(result.turns)} turns drawn in {str(plot)!r}")
    else:
        _print(console(), result, begin, full=full)


def _check(turn: str | None, since: str, plot: Path | None, *, follow: bool) -> None:
    """See that the options go together, before anything is read."""
    if turn is not None and (since or follow or plot):
        raise ConfigError(
            "--turn shows one turn: it does not go with --since, --follow and --plot. Leave it out, or them."
        )
    if follow and plot:
        raise ConfigError("--plot draws what is there: it does not go with --follow. Choose one.")
    if plot is not None:
        from ce_engine.apps.present.report_plot import check  # noqa: PLC0415 - only where one is asked for

        check(plot)


async def _read(
    url: str | None, session_id: str, account: str, user: str | None
) -> tuple[list[TurnRow], SessionDocument | None]:
    async with reading(url) as store:
        info = await find_session(store, session_id, account=account, user=user)
        return await read_turns(store, await operators_scope(store, info))


async def _explained(
    url: str | None, session_id: str, account: str, user: str | None, item: NumberedTurn
) -> Explanation | None:
    """What was brought in; `None` of a turn that cannot be made again, such as a helper's."""
    with suppress(ContextEngineError):  # the rest of the report needs no engine
        async with engine_over(url) as engine:
            scope = await find_scope(engine.store, session_id, account=account, user=user)
            return await engine.explain(scope, item.row.turn_id)
    return None


def _print(screen: Console, result: SessionTurns, since: str, *, full: bool) -> None:
    if not result.turns:
        print_under(screen, 0, _nothing(result.of, since))
        return
    if result.costs is not None and (line := result.costs.headline()):
        print_under(screen, 0, line, style="bold")
    print_over_budget(screen, result.turns)
    table = TurnTable(screen, full=full)
    table.print(result.turns)
    print_end(screen, table, result)


def _nothing(there: int, since: str) -> str:
    if there:
        return (
            f"no turns since {moment(since)} UTC: the session has {there} before; "
            "an earlier --since shows them"
        )
    return "no turns: nothing was prepared in this session; `ce show` has what was recorded of it"


def _draw(path: Path, session: str, result: SessionTurns) -> None:
    from ce_engine.apps.present.report_plot import draw  # noqa: PLC0415 - only where one is asked for

    draw(path, session, result.turns, result.costs)


def _print_one(result: SessionTurns, place: int, explanation: Explanation | None) -> None:
    screen, item, spent = console(), result.turns[place], result.costs
    print_turn(screen, item, turn_lines(spent, place) if spent is not None else ())
    if item.report is None:
        print_ids(screen, item)
        return
    if explanation is None:
        reason = "it cannot be made again (a helper's call, a store without its secret, no stored report)"
        print_under(screen, 0, f"\nBrought in for this turn: {reason}")
    else:
        numbers = {entry.row.tip_message_id or "": entry.turn for entry in reversed(result.turns)}
        since = quoted_since([entry.row for entry in result.turns], place)
        numbers |= {question_id: result.turns[n - 1].turn for question_id, n in since.items()}
        print_brought_in(screen, explanation, numbers)
    print_decisions(screen, item.report)
    print_ids(screen, item)


def _place(turns: Sequence[NumberedTurn], choice: str, session_id: str) -> int:
    from ce_engine.audit.replay import find_turn  # noqa: PLC0415 - brings half of the engine

    return find_turn([item.row for item in turns], choice, session_id)
