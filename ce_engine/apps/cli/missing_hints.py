"""What to try where nothing is there under the name that somebody gave."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ce_engine.apps.present.output import number


if TYPE_CHECKING:
    from ce_engine.ports.store import Store
    from ce_engine.schema.rows import SessionInfo

NAMED = 3
"""Sessions and accounts that are named."""
COMPARED = 1000
"""Sessions that are looked at for a name that is near, the newest."""


async def of_nothing(store: Store, account: str) -> str:
    """Where to look, as nothing of this account is there."""
    accounts = {key[0] for key in await store.list_keys()}
    if not accounts:
        return (
            "nothing is recorded there yet. Run your app with install_ce, or `ce demo`; or name another "
            "store with --store"
        )
    if others := sorted(accounts - {account}):
        return f"{_accounts(others)} there: choose with --account ID"
    return "what was there is deleted; `ce verify` tells of it"


async def of_session(
    store: Store, session_id: str, account: str, sessions: Sequence[SessionInfo]
) -> str:
    """Where to look, as the account has no session of this name, but these."""
    keys = await store.list_keys()
    if others := sorted({a for a, _, name in keys if name == session_id and a != account}):
        return f"{_accounts(others)} of this name, or had: choose with --account ID"
    if not sessions:
        return await of_nothing(store, account)
    names = [info.session_id for info in sessions[:COMPARED]]
    begin = [name for name in names if session_id and name.startswith(session_id)]
    near = begin or get_close_matches(session_id, names, NAMED)
    suggestion = f"Did you mean {' or '.join(map(repr, near[:NAMED]))}? " if near else ""
    there = (
        "1 other is there" if len(sessions) == 1 else f"{number(len(sessions))} others are there"
    )
    return f"{suggestion}{there}: `ce sessions --all` lists them, --account and --store choose where to look."


def _accounts(accounts: Sequence[str]) -> str:
    names = ", ".join(map(repr, accounts[:NAMED]))
    more = f" and {number(len(accounts) - NAMED)} more" if len(accounts) > NAMED else ""
    word = "account" if len(accounts) == 1 else "accounts"
    return f"{word} {names}{more} {'has' if len(accounts) == 1 else 'have'} some"
