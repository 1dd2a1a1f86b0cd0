"""What pages read: one store, for one operator, each look asked for and told of."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ce_engine.apps.cli.audited import operator
from ce_engine.apps.cli.reading import engine_on, reading
from ce_engine.apps.present.rules_out import RuleOut, rules_out
from ce_engine.apps.web.read_once import ReadOnce, reading_once
from ce_engine.audit.access import LISTED, AccessGuard, operating
from ce_engine.audit.json_lines import JsonLinesAudit
from ce_engine.errors import (
    ScopeViolationError,
    SessionNotFoundError,
    SettingForgedError,
)
from ce_engine.ports.audit import Authorize
from ce_engine.schema.audit import Action
from ce_engine.schema.environment import AUDIT_LOG
from ce_engine.schema.ids import Fingerprinter, SystemClock, UuidV4Generator
from ce_engine.schema.rows import HEAD_ONLY, TurnRow
from ce_engine.schema.scope import Scope
from ce_engine.text.tokens.prices import PriceTable, prices_here


if TYPE_CHECKING:
    from ce_engine.create import ContextEngine
    from ce_engine.ports.store import Store
    from ce_engine.schema.rows import SessionInfo


def operators_right(actor: str, action: Action, scope: Scope) -> bool:  # noqa: ARG001 - the port's
    """Whoever can open the store may read all of it, as with the other commands."""
    return True


@dataclass(frozen=True, slots=True)
class Source:
    """Where pages read, and for whom.

    Attributes:
        url: the store's, which is there already.
        account: sessions of this account.
        user: sessions of this user only; `None` is all users.
        authorize: asked before each look.
        prices: what models cost; `None` is what is known here.
    """

    url: str | None
    account: str = ""
    user: str | None = None
    authorize: Authorize = operators_right
    prices: PriceTable | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Reader]:
        """Open the store, for as long as pages are served."""
        async with reading(self.url) as store:
            reader = Reader(store, self)
            try:
                yield reader
            finally:
                await reader.close()


class Reader:
    """An open store. Pages read it inside `looking`."""

    def __init__(self, store: Store, source: Source) -> None:
        self._read_once = ReadOnce(store)
        self.store, self.source = cast("Store", self._read_once), source
        self.account, self.user = source.account, source.user
        self.prices = source.prices or prices_here()
        self.actor = operator()
        log = os.environ.get(AUDIT_LOG)
        sink = JsonLinesAudit(log) if log else None
        self._guard = AccessGuard(sink, UuidV4Generator(), SystemClock())
        self._engine: ContextEngine | None = None

    @contextmanager
    def looking(self, door: str, action: Action, scope: Scope) -> Iterator[None]:
        """One look of the operator's at a session: whether that is allowed, and a record of it.

        What is read of the session inside is read once.

        Args:
            door: what looks, such as `ui turn`.
            action: `read`, `list` or `inspect`.
            scope: at what; `LISTED` for its session is all of an owner's.

        Raises:
            ScopeViolationError: `authorize` refuses it; nothing was read.
        """
        began = time.perf_counter()
        try:
            self._guard.check(self.source.authorize, self.actor, action, scope)
        except ScopeViolationError as error:
            self._guard.tell(
                door, action, self.actor, scope, began=began, status="denied", error=error
            )
            raise
        with operating(self._guard, door, action, self.actor, scope), reading_once():
            yield

    @contextmanager
    def listing(self, door: str) -> Iterator[None]:
        """One look at the list of sessions: a record of it; what may not be seen is not in it."""
        everything = Scope.of_stored(self.account, self.user or "", LISTED)
        with operating(self._guard, door, "list", self.actor, everything):
            yield

    def may(self, action: Action, info: SessionInfo) -> bool:
        """Whether `authorize` lets the operator know of a session (`list`), or look into it (`read`)."""
        if self.source.authorize is operators_right:
            return True
        scope = Scope.of_stored(info.account_id, info.user_id, info.session_id)
        try:
            self._guard.check(self.source.authorize, self.actor, action, scope)
        except ScopeViolationError:
            return False
        return True

    async def sessions(self, since: str = "", limit: int | None = None) -> list[SessionInfo]:
        """The sessions that the operator may know of, runs without a named one too, newest first."""
        infos = await self.store.list_sessions(
            account_id=self.account, user_id=self.user, ephemeral=True, since=since, limit=limit
        )
        return [info for info in infos if self.may("list", info)]

    async def is_there(self, info: SessionInfo) -> bool:
        """Whether a session that was listed is there still; one that cannot be read just now is."""
        scope = Scope.of_stored(info.account_id, info.user_id, info.session_id)
        try:
            state = await self.store.state(scope, after_seq=HEAD_ONLY, after_evidence=HEAD_ONLY)
        except Exception:  # noqa: BLE001 - a driver's, too: the list goes on
            return True
        return state is not None

    async def scope(self, user_id: str, session_id: str, door: str) -> Scope:
        """The scope of a session that is there, its project included; a look at none is told of, as one of this `door`.

        Raises:
            SessionNotFoundError: there is none of this user, or another user was chosen.
        """
        began = time.perf_counter()
        key_scope = Scope.of_stored(self.account, user_id, session_id)
        state = None
        if self.user in (None, user_id):
            state = await self.store.state(key_scope, after_seq=HEAD_ONLY, after_evidence=HEAD_ONLY)
        if state is None:
            self._read_once.forget()  # it may have been deleted
            absent = SessionNotFoundError(
                f"there is no session {session_id!r} here. It may have been deleted: the list of "
                "sessions has those that are there."
            )
            refusal = self._refusal(key_scope)
            self._guard.tell(
                door,
                "read",
                self.actor,
                key_scope,
                began=began,
                status="denied" if refusal else "not_found",
                error=refusal or absent,
            )
            raise absent
        return Scope.of_stored(*key_scope.key, state.head.project_id)

    def _refusal(self, scope: Scope) -> ScopeViolationError | None:
        """Why nobody may read such a session here, whether it is there or not."""
        if self.user not in (None, scope.user_id):
            return ScopeViolationError("another user was chosen")
        try:
            self._guard.check(self.source.authorize, self.actor, "read", scope)
        except ScopeViolationError as error:
            return error
        return None

    def engine(self) -> ContextEngine:
        """An engine over the store, made when it is first needed: it is slow to import."""
        if self._engine is None:
            self._engine = engine_on(self.store)
            self._engine.authorize = operators_right  # `looking` has asked
        return self._engine

    async def mask_names(self, scope: Scope) -> frozenset[str]:
        """The placeholders that a session has given, such as `[EMAIL_1]`."""
        state = await self.store.state(scope, after_seq=HEAD_ONLY, after_evidence=HEAD_ONLY)
        given = state.placeholders if state is not None else ()
        return frozenset(f"[{each.label}_{each.number}]" for each in given)

    async def rules_out(self, scope: Scope, turns: Sequence[TurnRow]) -> list[RuleOut]:
        """The rules that went out in a session; none where its owner's are not what was set."""
        try:
            rules = await self.engine().constraints.list(scope)
        except SettingForgedError:
            return []
        state = await self.store.state(scope, after_seq=HEAD_ONLY, after_evidence=HEAD_ONLY)
        if state is None:
            return []
        project_scope = Scope.of_stored(*scope.key, state.head.project_id)
        key = Fingerprinter(self.store.secret, state.head.salt, project_scope)
        return rules_out(rules, turns, key if key.key_id == state.head.key_id else None)

    async def close(self) -> None:
        """Let go of the engine, if there is one; the store is its opener's."""
        if self._engine is not None:
            await self._engine.close()


__all__ = ["Reader", "Source", "operators_right"]
