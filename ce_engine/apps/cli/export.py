"""`ce export`: all that is stored of a user, as one JSON file, for that person's request."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ce_engine.apps.cli.options import Account, AsJson, StoreUrl
from ce_engine.apps.cli.progress import spinner
from ce_engine.apps.cli.reading import engine_over
from ce_engine.apps.present.new_files import write_new
from ce_engine.apps.present.output import number, print_json


if TYPE_CHECKING:
    from ce_engine.schema.user_export import UserExport

User = Annotated[
    str,
    typer.Option("--user", metavar="ID", help="Of this user; '' is the user without a name."),
]
To = Annotated[
    Path | None,
    typer.Option(
        "--to", metavar="FILE", help="Write it to this new file, for its owner alone to read."
    ),
]


def export(
    *,
    user: User,
    to: To = None,
    store: StoreUrl = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Export the sessions, turns, logs and settings of one user as JSON; content is as it is stored, redacted.

    Without --to it is printed. `ce schema export` describes it.
    """
    user_export = asyncio.run(_exported(store, account, user, quiet=as_json))
    if not user_export.sessions and not user_export.settings:
        typer.echo(
            f"nothing of user {user!r} in account {account!r}: `ce sessions --all` lists whose there is",
            err=True,
        )
    if to is None:
        print_json(json.loads(_as_json(user_export)))
        return
    _write(to, user_export)
    messages = sum(len(session.document.session.messages) for session in user_export.sessions)
    counts = {
        "sessions": len(user_export.sessions),
        "messages": messages,
        "settings": len(user_export.settings),
    }
    if as_json:
        print_json(counts | {"file": str(to)})
    else:
        summary = ", ".join(f"{number(count)} {name}" for name, count in counts.items())
        typer.echo(f"{summary} written to {to}")


async def _exported(url: str | None, account: str, user: str, *, quiet: bool) -> UserExport:
    async with engine_over(url) as engine:
        with spinner("reading", hidden=quiet):
            return await engine.export_user_data(account, user)


def _write(path: Path, user_export: UserExport) -> None:
    """Write it whole, or leave nothing there."""
    write_new(path, (_as_json(user_export) + "\n").encode("utf-8"))


def _as_json(user_export: UserExport) -> str:
    """All in escapes where somebody sent half of a surrogate pair, which UTF-8 has none of."""
    try:
        return user_export.model_dump_json(indent=1)
    except ValueError:
        return json.dumps(user_export.model_dump(), indent=1)
