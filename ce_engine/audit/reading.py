"""Lists and reads what is stored of sessions; it changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ce_engine.audit.trace import SETTLE_S
from ce_engine.errors import FileDamagedError
from ce_engine.runtime.waiting import STORE_S, answered
from ce_engine.schema.document import Evidence, SessionDocument
from ce_engine.schema.events import Event
from ce_engine.schema.report import EvidenceFilter, Report, report_of
from ce_engine.schema.rows import HEAD_ONLY, SessionInfo, TurnRow
from ce_engine.schema.scope import Scope, as_scope, check_project
from ce_engine.stores.base import BaseStore
from ce_engine.turns.engine_base import EngineBase


T = TypeVar("T")


async def see_whole(
    store: object, account_id: str | None = None, user_id: str | None = None
) -> None:
    """See that lists name all that is there: where nothing may be missing from them.

    Raises:
        FileDamagedError: something cannot be read, and is in no list.
    """
    if not isinstance(store, BaseStore):
        return
    if damage := await answered(store.damaged(account_id, user_id)):
        raise FileDamagedError("; ".join(damage))


class ReadMethods(EngineBase):
    """The part of the engine that reads: with the names of `ports.Store`, after what is on its way there.

    A session is exactly that of the scope's account and user; an id alone is one of no account and no
    user. What is not there, and what is another's, is `None` or an empty list.

    Raises:
        ScopeViolationError: the session belongs to another project (D-10).
        StoreUnavailableError: the store cannot be read now.
    """

    async def list_sessions(
        self,
        *,
        account_id: str = "",
        user_id: str | None = "",
        ephemeral: bool = False,
        since: str = "",
        limit: int | None = None,
    ) -> list[SessionInfo]:
        """Sessions of one user, newest first.

        Args:
            account_id: whose user it is; `""` is no account.
            user_id: exactly this one; `None` is all users of the account, for its operator.
            ephemeral: also those of runs for which the app named no session.
            since: only those that were written to at that time (UTC, ISO 8601) or later.
            limit: only so many, the newest.
        """

        async def read() -> list[SessionInfo]:
            await self._land_all(SETTLE_S)
            return await answered(
                self.store.list_sessions(
                    account_id=account_id,
                    user_id=user_id,
                    ephemeral=ephemeral,
                    since=since,
                    limit=limit,
                ),
                STORE_S,
            )

        return await self.loop.share(read())

    async def get_session(self, session_id: Scope | str) -> SessionDocument | None:
        """The whole document of a session, messages in their order; content is redacted."""
        return await self._looked_up(session_id, self.store.get_session, None)

    async def get_evidence(self, session_id: Scope | str, evidence_id: str) -> Evidence | None:
        """One piece of evidence of a session."""
        return await self._looked_up(
            session_id, lambda scope: self.store.get_evidence(scope, evidence_id), None
        )

    async def list_evidences(
        self,
        session_id: Scope | str,
        filter: EvidenceFilter | None = None,  # noqa: A002 - the store's name
    ) -> list[Evidence]:
        """The evidence of a session in order of arrival; a filter's `limit` takes the first ones."""
        return await self._looked_up(
            session_id, lambda scope: self.store.list_evidences(scope, filter), []
        )

    async def list_turns(self, session_id: Scope | str) -> list[TurnRow]:
        """The turns of a session in order of opening."""
        return await self._looked_up(session_id, self.store.list_turns, [])

    async def list_reports(self, session_id: Scope | str) -> list[Report]:
        """The stored reports of a session's turns in order of opening; turns without one are left out.

        Such as have a damaged one, too: `list_turns` names the fields, as `report["damaged"]`.

        Raises:
            SchemaValidationError: a newer release wrote one.
        """
        reports = (report_of(row.turn_id, row.report) for row in await self.list_turns(session_id))
        return [report for report in reports if report is not None]

    async def list_events(self, session_id: Scope | str) -> list[Event]:
        """The stored events of a session in their order; they have no content of messages."""
        return await self._looked_up(session_id, self.store.list_events, [])

    async def _looked_up(
        self, session: Scope | str, read: Callable[[Scope], Awaitable[T]], nothing: T
    ) -> T:
        scope = as_scope(session)

        async def work() -> T:
            await self._land_all(SETTLE_S)
            state = await answered(
                self.store.state(scope, after_seq=HEAD_ONLY, after_evidence=HEAD_ONLY), STORE_S
            )
            if state is None:
                return nothing
            check_project(scope, state.head.project_id)
            return await answered(read(scope), STORE_S)

        return await self.loop.share(work())
