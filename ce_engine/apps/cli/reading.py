"""Opens a store that is there already, and finds a session in it for its operator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ce_engine.apps.cli import missing_hints
from ce_engine.apps.cli.errors import AmbiguousSessionError
from ce_engine.errors import (
    ConfigError,
    FileDamagedError,
    SessionNotFoundError,
    StoreUnavailableError,
    StoreUrlError,
)
from ce_engine.schema.scope import Scope
from ce_engine.stores import open_store
from ce_engine.stores.urls import DEFAULT, MEMORY, VARIABLE, is_server, local_path, scheme_of


if TYPE_CHECKING:
    from ce_engine.config import RuntimeConfig
    from ce_engine.create import ContextEngine
    from ce_engine.ports.embedder import Embedder
    from ce_engine.ports.store import Store
    from ce_engine.schema.rows import SessionInfo
    from ce_engine.text.tokens.prices import PriceTable


def text_of(path: Path) -> str:
    """The text of a file that the user named.

    Raises:
        ConfigError: it cannot be read, or is no UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {str(path)!r}: see that its name is right") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{str(path)!r} cannot be read as UTF-8 text: {error}") from error


def prices_of(path: Path | None) -> PriceTable | None:
    """The prices of a file that the user named, before those that are known here.

    Raises:
        ConfigError: it cannot be read, or is no price table.
    """
    from ce_engine.text.tokens.prices import PriceTable, over_the_list  # noqa: PLC0415 - brings estimators

    return over_the_list(PriceTable.parse(text_of(path), path.name)) if path else None


NAMED_USERS = 5
"""Users that an error names."""

PATIENT_S = 15
"""Who types a command rather waits than reads that the store is busy; an app's turn does not."""


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
    if not is_server(url) and not (path := local_path(url)).exists():
        raise StoreUnavailableError(
            f"there is no store at {str(path)!r} yet. Run `ce demo`, or your app with install_ce, "
            f"which makes one; or name another with --store URL or {VARIABLE}."
        )
    store = open_store(url, lock_timeout_s=PATIENT_S)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def engine_over(
    url: str | None, originals: str | None = None, config: RuntimeConfig | None = None
) -> AsyncIterator[ContextEngine]:
    """An engine over the store at `url`, which is there already, and the one of the originals."""
    # Commands that only read the store do without the engine, which is slow to import.
    from ce_engine.config import RedactionConfig, RuntimeConfig  # noqa: PLC0415

    config = config or RuntimeConfig()
    if originals:
        redaction = RedactionConfig(mode="dual_store", originals_url=originals)
        config = config.model_copy(update={"redaction": redaction})
    async with reading(url) as store:
        engine = engine_on(store, config)
        try:
            yield engine
        finally:
            await engine.close()


def engine_on(store: Store, config: RuntimeConfig | None = None) -> ContextEngine:
    """An engine over an open store, with an operator's patience."""
    from ce_engine.config import RuntimeConfig, StoreConfig  # noqa: PLC0415 - as above
    from ce_engine.create import create_context_engine  # noqa: PLC0415

    patient = StoreConfig(deadline_s=PATIENT_S)
    config = (config or RuntimeConfig()).model_copy(update={"store": patient})
    return create_context_engine(store, config=config, embedder=_embedder())


def _embedder() -> Embedder | None:
    """The one that comes with an extra, if it is here: what was chosen with it is made again with it."""
    from ce_engine.errors import MissingDependencyError  # noqa: PLC0415
    from ce_engine.text.relevance.minilm import MiniLmEmbedder  # noqa: PLC0415

    try:
        return MiniLmEmbedder()
    except MissingDependencyError:
        return None


async def find_session(
    store: Store, session_id: str, *, account: str, user: str | None
) -> SessionInfo:
    """The session of this id, of whichever user of the account has it.

    Raises:
        SessionNotFoundError: nobody has.
        AmbiguousSessionError: several users have one.
    """
    sessions = await store.list_sessions(account_id=account, user_id=user, ephemeral=True)
    matches = [info for info in sessions if info.session_id == session_id]
    if len(matches) == 1:
        return matches[0]
    if matches:
        users = ", ".join(repr(info.user_id) for info in matches[:NAMED_USERS])
        more = f" and {len(matches) - NAMED_USERS} more" if len(matches) > NAMED_USERS else ""
        raise AmbiguousSessionError(
            f"session {session_id!r} is there for {len(matches)} users: {users}{more}. "
            "Choose one with --user ID."
        )
    owner = "" if user is None else f" of user {user!r}"
    where = await missing_hints.of_session(store, session_id, account, sessions)
    raise SessionNotFoundError(
        f"there is no session {session_id!r}{owner} in account {account!r} of {store.url}: {where}"
    )


async def find_scope(store: Store, session_id: str, *, account: str, user: str | None) -> Scope:
    """The scope of this session, its project included; of a deleted one too.

    Raises:
        SessionNotFoundError: nobody has, or had, one.
        AmbiguousSessionError: several users have one.
    """
    scope = Scope.of_stored(account, user or "", session_id)
    try:
        info = await find_session(store, session_id, account=account, user=user)
        scope = Scope.of_stored(account, info.user_id, session_id)
    except AmbiguousSessionError:
        raise
    except SessionNotFoundError as error:
        if await store.chain(scope) is None:
            raise SessionNotFoundError(f"{error} A deleted one is found with --user ID.") from None
    return await with_project(store, scope)


async def with_project(store: Store, scope: Scope) -> Scope:
    """The scope as an operator has it, who reads every project."""
    try:
        chain = await store.chain(scope)
    except FileDamagedError:  # whoever goes on with it says so
        return scope
    return Scope.of_stored(*scope.key, chain.head.project_id if chain else "")
