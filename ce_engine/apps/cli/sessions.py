"""`ce sessions`: what is recorded, newest first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ce_engine.apps.cli import missing_hints
from ce_engine.apps.cli.options import Account, AsJson, StoreUrl, User
from ce_engine.apps.cli.reading import NAMED_USERS, reading
from ce_engine.apps.present.output import (
    console,
    moment,
    number,
    print_columns,
    print_json,
    print_under,
    printable,
)


if TYPE_CHECKING:
    from rich.console import Console

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
    infos, where = asyncio.run(_listed(store, account, user, ephemeral=ephemeral))
    if as_json:
        print_json([asdict(info) for info in infos])
    elif infos:
        _print(console(), infos, ephemeral=ephemeral)
    else:
        print_under(console(), 0, where)


async def _listed(
    url: str | None, account: str, user: str | None, *, ephemeral: bool
) -> tuple[list[SessionInfo], str]:
    """The sessions; where there are none, what to say instead."""
    async with reading(url) as store:
        infos = await store.list_sessions(account_id=account, user_id=user, ephemeral=ephemeral)
        if infos:
            return infos, ""
        owner = "" if user is None else f" and user {user!r}"
        lead = f"no sessions of account {account!r}{owner} in {store.url}"
        every = await store.list_sessions(account_id=account, user_id=None, ephemeral=True)
        if not every:
            return infos, f"{lead}: {await missing_hints.of_nothing(store, account)}"
        rows = [info for info in every if user in (None, info.user_id)]
        if rows:
            return infos, f"{lead} have a name: --all lists {number(len(rows))} that are ephemeral"
        users = ", ".join(sorted({repr(info.user_id) for info in every})[:NAMED_USERS])
        return infos, f"{lead}: there are some of {users}; without --user all are listed"


def _print(screen: Console, infos: Sequence[SessionInfo], *, ephemeral: bool) -> None:
    columns = ["session", "user", "framework", "turns", "messages", "tool calls", "evidence"]
    columns += ["updated (UTC)", *(["kind"] if ephemeral else [])]
    rows = [
        (
            printable(info.session_id),
            info.user_id or "-",
            ", ".join(info.frameworks) or "-",
            number(info.turns),
            number(info.messages),
            number(info.tool_calls),
            number(info.evidences),
            moment(info.updated_at),
            *(["ephemeral" if info.ephemeral else "named"] if ephemeral else []),
        )
        for info in infos
    ]
    numbers = {"turns", "messages", "tool calls", "evidence"}
    spare = ("evidence", "tool calls", "messages", "framework", "user", "turns")
    print_columns(screen, columns, rows, numbers=numbers, spare=spare)
