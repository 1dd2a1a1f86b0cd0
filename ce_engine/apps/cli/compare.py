"""`ce compare`: recorded calls by framework, model, agent, session or A/B tag, side by side."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from ce_engine.apps.cli import missing_hints
from ce_engine.apps.cli.options import Account, AsJson, Prices, StoreUrl, User
from ce_engine.apps.cli.progress import bar
from ce_engine.apps.cli.reading import find_session, prices_of, reading
from ce_engine.apps.cli.times import time_of
from ce_engine.apps.present.compare_lines import csv_text, label, lines, notes, subject
from ce_engine.apps.present.new_files import refuse_to_overwrite, write_new
from ce_engine.apps.present.output import clipped, console, moment, number, print_json, print_under
from ce_engine.audit.compare.figures import Comparison
from ce_engine.audit.compare.figures import compare as compared
from ce_engine.audit.compare.reading import read_calls
from ce_engine.audit.compare.records import TAG, CallRecord, grouping
from ce_engine.errors import ConfigError


if TYPE_CHECKING:
    from rich.console import Console

    from ce_engine.ports.store import Store
from ce_engine.schema.rows import SessionInfo


NAME_CELLS = 28
"""Cells of a group's name."""
GAP = 3
"""Cells between columns, at most."""

Sessions = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SESSION]...", help="Only these.", show_default="all of the account"),
]
By = Annotated[
    str,
    typer.Option(
        "--by", help="framework, model, agent, session, or tag:NAME, an A/B tag's values."
    ),
]
Since = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="Calls from then on: 2026-11-23, 2026-11-23T14:30Z, or 24h ago."
    ),
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Calls before then, in the same forms.")]
Html = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write one page that needs nothing else: a new file."),
]


def compare(  # noqa: PLR0913 - one parameter an option
    sessions: Sessions = None,
    *,
    by: By = "framework",
    since: Since = "",
    until: Until = "",
    prices: Prices = None,
    html: Html = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, a row a group.")] = False,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Compare recorded calls: tokens, cost, latency, tools, evidence, and what went wrong.

    Ephemeral sessions count, too. With --json, an object with by, from, to, currency, groups (by name) and
    total; what is not known is null.
    """
    grouping(by)  # what is wrong with it is told before everything is read
    if as_csv and as_json:
        raise ConfigError("--csv and --json both print to stdout. Choose one of them.")
    table = prices_of(prices)
    span = (time_of(since), time_of(until))
    if html:
        refuse_to_overwrite(html)
    calls, where = asyncio.run(
        _read(store, sessions or [], account, user, span, by, quiet=as_json or as_csv)
    )
    comparison = compared(calls, by, table)
    if html:
        _write_page(html, comparison)
    if as_json:
        print_json(_plain(comparison))
    elif as_csv:
        typer.echo(csv_text(comparison), nl=False)
    elif calls:
        _print(console(), comparison)
    else:
        print_under(console(), 0, where)


async def _read(
    url: str | None,
    session_ids: list[str],
    account: str,
    user: str | None,
    span: tuple[str, str],
    by: str,
    *,
    quiet: bool,
) -> tuple[list[CallRecord], str]:
    """The calls; where there are none, what to say instead."""
    async with reading(url) as store:
        infos = await _sessions(store, session_ids, account, user)
        since, until = span
        tags = by.startswith(TAG)
        with bar("reading", len(infos), hidden=quiet) as advance:
            calls = await read_calls(
                store, infos, since=since, until=until, tags=tags, advance=advance
            )
        if calls:
            return calls, ""
        lead = f"no calls of account {account!r} in {store.url}"
        if infos:
            return (
                calls,
                f"{lead} , of these sessions and this time: `ce sessions --all` lists all, with their times",
            )
        return calls, f"{lead}: {await missing_hints.of_nothing(store, account)}"


async def _sessions(
    store: Store, session_ids: list[str], account: str, user: str | None
) -> list[SessionInfo]:
    if not session_ids:
        return await store.list_sessions(account_id=account, user_id=user, ephemeral=True)
    names = dict.fromkeys(session_ids)
    return [await find_session(store, name, account=account, user=user) for name in names]


def _write_page(path: Path, comparison: Comparison) -> None:
    from ce_engine.apps.cli.compare_page import page  # noqa: PLC0415 - only where one is asked for

    write_new(path, page(comparison).encode("utf-8", "backslashreplace"))


def _plain(comparison: Comparison) -> dict[str, Any]:
    return {
        "by": comparison.by,
        "from": comparison.first_at or None,
        "to": comparison.last_at or None,
        "currency": comparison.prices.currency if comparison.prices else None,
        "unit": comparison.unit,
        "groups": {name: figures.as_json() for name, figures in comparison.groups.items()},
        "total": comparison.total.as_json(),
        "notes": list(notes(comparison)),
    }


def _print(screen: Console, comparison: Comparison) -> None:
    """A column a group; where there is no room for all, one table below the other."""
    total = comparison.total
    counts = f"{number(total.calls)} calls of {number(total.sessions)} sessions"
    span = f"{moment(comparison.first_at)} to {moment(comparison.last_at)} UTC"
    print_under(screen, 0, f"{counts} by {subject(comparison.by)}, {span}", style="bold")
    columns = [(label(name), figures) for name, figures in comparison.groups.items()]
    if len(columns) > 1:
        columns.append(("all", total))
    rows = [(line, [line.text(figures) for _, figures in columns]) for line in lines(comparison)]
    heads = [clipped(name, NAME_CELLS) for name, _ in columns]
    widths = [
        max([Text(head).cell_len, *(len(texts[place]) for _, texts in rows)]) + GAP
        for place, head in enumerate(heads)
    ]
    first = max(len(line.title) for line, _ in rows) + GAP
    for part in _parts(widths, screen.width - first):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
        table.add_column(subject(comparison.by), no_wrap=True)
        for place in part:
            table.add_column(Text(heads[place]), justify="right", no_wrap=True)
        for line, texts in rows:
            cells = [
                Text(texts[place], style="bold red" if line.bad(columns[place][1]) else "")
                for place in part
            ]
            table.add_row(Text(line.title), *cells)
        screen.print(table)
    for note in notes(comparison):
        print_under(screen, 2, note, before="· ", style="dim")


def _parts(widths: list[int], room: int) -> list[list[int]]:
    """The columns' places, as many at once as there is room for, and never none."""
    parts: list[list[int]] = [[]]
    used = 0
    for place, width in enumerate(widths):
        if parts[-1] and used + width > room:
            parts.append([])
            used = 0
        parts[-1].append(place)
        used += width
    return parts
