"""`ce sweep`: delete what has outlived its rule."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ce_engine.apps.cli.options import AsJson, OriginalsUrl, StoreUrl
from ce_engine.apps.cli.progress import spinner
from ce_engine.apps.cli.reading import engine_over
from ce_engine.apps.present.output import console, number, print_json, printable
from ce_engine.errors import DeletedBytesError


if TYPE_CHECKING:
    from ce_engine.schema.retention import RetentionConfig, SweepReport

_AGE = re.compile(r"(\d{1,6})([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


def _age(text: str) -> timedelta:
    match = _AGE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise typer.BadParameter("expected a number and d, h or m: 90d, 12h, 30m")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _option(name: str, subject: str) -> Any:
    return typer.Option(
        name, metavar="AGE", parser=_age, help=f"{subject} older than this: 90d, 12h, 30m."
    )


SessionAge = Annotated[timedelta | None, _option("--sessions", "Sessions whose last record is")]
EphemeralAge = Annotated[
    timedelta | None, _option("--ephemeral", "Runs for which the app named no session,")
]
EvidenceAge = Annotated[
    timedelta | None, _option("--evidence", "The content of evidence, in sessions that stay,")
]
Owner = Annotated[
    str | None, typer.Option("--account", metavar="ID", help="Of this account.", show_default="all")
]
OwnUser = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="Of this user.", show_default="all")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")]


def sweep(  # noqa: PLR0913 - one parameter an option
    *,
    sessions: SessionAge = None,
    ephemeral: EphemeralAge = None,
    evidence: EvidenceAge = None,
    account: Owner = None,
    user: OwnUser = None,
    dry_run: DryRun = False,
    store: StoreUrl = None,
    originals: OriginalsUrl = None,
    as_json: AsJson = False,
) -> None:
    """Delete what is older than you say, from every byte of the store.

    An app with `RuntimeConfig(retention=...)` sweeps by itself; this is for a timer of your own. It may be
    stopped and run again. Exit code 1: something could not be deleted now, or PostgreSQL keeps old rows in its files.
    """
    from ce_engine.schema.retention import (  # noqa: PLC0415 - brings the schema
        RetentionConfig,
        RetentionRule,
    )

    ages = {"session": sessions, "ephemeral": ephemeral, "evidence": evidence}
    rules = [
        RetentionRule(kind=kind, max_age=age, account_id=account, user_id=user)  # type: ignore[arg-type]
        for kind, age in ages.items()
        if age is not None
    ]
    if not rules:
        raise typer.BadParameter("name what is to go: --sessions, --ephemeral or --evidence AGE")
    config = RetentionConfig(rules=tuple(rules))
    report = asyncio.run(_swept((store, originals), config, dry_run=dry_run, quiet=as_json))
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        _print(report, dry_run=dry_run)
    if report.failed or report.deleted.bytes_left:
        raise typer.Exit(1)


async def _swept(
    urls: tuple[str | None, str | None], config: RetentionConfig, *, dry_run: bool, quiet: bool
) -> SweepReport:
    async with engine_over(*urls) as engine:
        with spinner("looking for what is too old", hidden=quiet) as say:
            return await engine.sweep(
                config,
                dry_run=dry_run,
                advance=lambda left: say(f"deleting: {number(left)} left"),
            )


def _print(report: SweepReport, *, dry_run: bool) -> None:
    screen = console()
    words = {"session": "sessions", "ephemeral": "ephemeral runs", "evidence": "pieces of evidence"}
    counts = Counter[str](item.kind for item in report.expired)
    sums = ", ".join(
        f"{number(counts[kind])} {word}" for kind, word in words.items() if counts[kind]
    )
    if not sums:
        screen.print("nothing is older than that")
    elif dry_run:
        screen.print(f"would delete {sums}; nothing was changed")
    else:
        screen.print(f"deleted {sums}" if not report.failed else f"of {sums} not all could go")
    for item, code in report.failed:
        screen.print(
            printable(f"not deleted [{code}]: {item.kind} {item.session_id} {item.evidence_id}")
        )
    if left := report.deleted.bytes_left:
        typer.echo(printable(f"error [{DeletedBytesError.code}]: {left}"), err=True)
