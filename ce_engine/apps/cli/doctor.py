"""`ce doctor`: what is wrong with the installation, and the cure of each problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from ce_engine.apps.cli.options import AsJson, OriginalsUrl, StoreUrl
from ce_engine.apps.present.output import console, print_json, print_under
from ce_engine.stores.urls import DEFAULT


if TYPE_CHECKING:
    from ce_engine.apps.cli.installation_checks import Check

Fetch = Annotated[
    bool, typer.Option("--fetch", help="Fetch the vocabularies that are missing, over the network.")
]

STYLES = {"OK": "green", "WARN": "yellow", "FAIL": "bold red"}
INDENT = 6


def doctor(
    *,
    fetch: Fetch = False,
    store: StoreUrl = None,
    originals: OriginalsUrl = None,
    as_json: AsJson = False,
) -> None:
    """Check versions, vocabularies, stores and secret; name the cure of every problem.

    The exit code is 1 if a check fails. With --json, a list of objects with check, status (OK, WARN,
    FAIL), detail and cure.
    """
    # Only this command pays for what they import.
    from ce_engine.apps.cli import installation_checks, store_checks  # noqa: PLC0415

    results = [
        installation_checks.python(),
        *installation_checks.adapters(),
        *installation_checks.variables(),
        *installation_checks.vocabularies(fetch=fetch),
        *store_checks.store(store or DEFAULT),
        *(store_checks.originals(originals, store or DEFAULT) if originals else ()),
    ]
    if as_json:
        print_json([asdict(check) for check in results])
    else:
        _print(console(), results)
    if any(check.status is installation_checks.Status.FAIL for check in results):
        raise typer.Exit(1)


def _print(screen: Console, results: Sequence[Check]) -> None:
    for check in results:
        mark = Text(f"{check.status.value:<{INDENT}}", style=STYLES[check.status])
        print_under(screen, INDENT, f"{check.check}: {check.detail}", before=mark)
        if check.cure:
            print_under(screen, INDENT, f"-> {check.cure}")
