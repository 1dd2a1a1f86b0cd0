"""Opens a store that is there already, and finds a session in it for its operator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ce_engine.cli.errors import AmbiguousSessionError
from ce_engine.errors import SessionNotFoundError, StoreUnavailableError, StoreUrlError
from ce_engine.ports import Store
from ce_engine.schema.rows import SessionInfo
from ce_engine.stores import open_store
from ce_engine.stores.urls import DEFAULT, MEMORY, VARIABLE, local_path, scheme_of


NAMED_USERS = 5
"""Users that an error names."""


@asynccontextmanager
async def reading(url: str | None) -> AsyncIterator[Store]:
    """Open the store at `url`, never making one, and close it again.

    Raises:
        StoreUrlError: the URL is not understood, or names a store that ends with its process.
        StoreUnavailableError: there is no store yet.
    """
    url = url or DEFAULT
    if scheme_of(url) == "memory":
        raise StoreUrlError(
            f"{MEMORY} ends with its process, so there is nothing to show. Name the store that the "
            f"app writes to with --store or {VARIABLE}, for example --store {DEFAULT}."
        )
    path = local_path(url)
    if not path.exists():
        raise StoreUnavailableError(
            f"there is no store at {str(path)!r} yet. Run `ce demo`, or your app with install_ce, "
            f"which makes one; or name another with --store URL or {VARIABLE}."
        )
    store = open_store(url)
    try:
        yield store
    finally:
        await store.close()


async def find_session(
    store: Store, session_id: str, *, account: str, user: str | None
) -> SessionInfo:
    """The session of this id, of whichever user of the account has it.

    Raises:
        SessionNotFoundError: nobody has.
        AmbiguousSessionError: several users have one.
    """
    sessions = await store.list_sessions(account_id=account, user_id=user, ephemeral=True)
    found = [info for info in sessions if info.session_id == session_id]
    if len(found) == 1:
        return found[0]
    if found:
        users = ", ".join(repr(info.user_id) for info in found[:NAMED_USERS])
        more = f" and {len(found) - NAMED_USERS} more" if len(found) > NAMED_USERS else ""
        raise AmbiguousSessionError(
            f"session {session_id!r} is there for {len(found)} users: {users}{more}. "
            "Choose one with --user ID."
        )
    whose = "" if user is None else f" of user {user!r}"
    raise SessionNotFoundError(
        f"there is no session {session_id!r}{whose} in account {account!r} of {store.url}. "
        f"{len(sessions)} others are there: `ce sessions --all` lists them, --account and --store "
        "choose where to look."
    )
