"""`ce verify`: whether a session's event log is what was recorded, deleted in part, or tampered with."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import typer

from ce_engine.apps.cli.options import Account, AsJson, SessionId, StoreUrl, User
from ce_engine.apps.cli.reading import engine_over, find_scope
from ce_engine.apps.present.output import console, moment, number, print_json, printable
from ce_engine.schema.events import Deletion, Verification


def verify(
    session: SessionId,
    *,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Verify a session's event log; exit code 1 if it was tampered with.

    With --json, an object with session_id, status (intact, deleted or tampered), events, tampered_seq
    (the first event that is not what was recorded, or is missing), deleted (what was deleted, and
    when) and unchecked (events whose key is gone).
    """
    found = asyncio.run(_verify(store, session, account, user))
    if as_json:
        print_json({"session_id": session, "status": found.status, **asdict(found)})
    else:
        _print(session, found)
    if found.tampered_seq is not None:
        raise typer.Exit(1)


async def _verify(url: str | None, session: str, account: str, user: str | None) -> Verification:
    async with engine_over(url) as engine:
        scope = await find_scope(engine.store, session, account=account, user=user)
        return await engine.verify(scope)


def _print(session: str, found: Verification) -> None:
    screen = console()
    if found.tampered_seq is not None:
        what = f"tampered with: event {number(found.tampered_seq)} is not what was recorded"
    else:
        what = "intact, but for what was deleted" if found.deleted else "intact"
    screen.print(printable(f"session {session}: {what} ({number(found.events)} events)"))
    for part in found.deleted:
        screen.print(printable(f"  {_named(part)} was deleted at {moment(part.at)} UTC"))
    if found.unchecked:
        screen.print(
            f"  {number(found.unchecked)} payloads could not be checked: their key is gone"
        )


def _named(part: Deletion) -> str:
    if part.evidence_id is not None:
        return f"evidence {part.evidence_id}"
    return f"all before event {number(part.seq)}"
