"""`ce sessions`: what is recorded, newest first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from ce_engine.cli.options import Account, AsJson, StoreUrl, User
from ce_engine.cli.output import console, moment, number, print_json, table
from ce_engine.cli.reading import reading
from ce_engine.schema.rows import SessionInfo


Ephemeral = Annotated[
    bool,
    typer.Option("--all", help="Ephemeral ones too: runs for which the app named no session."),
]


def sessions(
    *,
    ephemeral: Ephemeral = False,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """List the recorded sessions, newest first.

    With --json, a list of objects with session_id, user_id, account_id, frameworks, messages,
    tool_calls, evidences, turns, ephemeral, created_at and updated_at.
    """
    found = asyncio.run(_listed(store, account, user, ephemeral=ephemeral))
    if as_json:
        print_json([asdict(info) for info in found])
    elif found:
        console().print(_table(found, ephemeral=ephemeral))
    else:
        console().print("no sessions" if ephemeral else "no sessions; with --all: ephemeral ones")


async def _listed(
    url: str | None, account: str, user: str | None, *, ephemeral: bool
) -> list[SessionInfo]:
    async with reading(url) as store:
        return await store.list_sessions(account_id=account, user_id=user, ephemeral=ephemeral)


def _table(found: Sequence[SessionInfo], *, ephemeral: bool) -> Table:
    users = any(info.user_id for info in found)
    columns = ["session", *(["user"] if users else []), "framework"]
    columns += ["turns", "messages", "tool calls", "evidence", "updated (UTC)"]
    columns += ["kind"] if ephemeral else []
    rows = []
    for info in found:
        row: list[object] = [info.session_id, *([info.user_id] if users else [])]
        row += [", ".join(info.frameworks) or "-", number(info.turns), number(info.messages)]
        row += [number(info.tool_calls), number(info.evidences), moment(info.updated_at)]
        row += [("ephemeral" if info.ephemeral else "named")] if ephemeral else []
        rows.append(row)
    return table(columns, rows, numbers={"turns", "messages", "tool calls", "evidence"})
