"""A store of sessions that are whole in memory when they are read: all reads, over one way to look."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from ce_engine.schema.document import (
    ContextBlock,
    Evidence,
    Meta,
    Session,
    SessionDocument,
    Task,
    TaskState,
    TodoList,
    ToolState,
)
from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.events import ContentCheck, Event
from ce_engine.schema.report import BlockFilter, EvidenceFilter
from ce_engine.schema.rows import EventChain, EvidenceRow, SessionInfo, SessionState, TurnRow
from ce_engine.schema.scope import Scope, check_project
from ce_engine.schema.settings import Versions
from ce_engine.schema.stored_report import readable
from ce_engine.stores import row_rules
from ce_engine.stores.base import BaseStore
from ce_engine.stores.codec import fresh
from ce_engine.stores.documents.session import (
    CheckedSession,
    StoredSession,
    copy_message,
    copy_summary,
    copy_turn,
)
from ce_engine.stores.owner_settings import Owned, version_of


T = TypeVar("T")
Key = tuple[str, str, str]


class DocumentStore(BaseStore):
    """The reads of a store that holds `StoredSession` sessions; see `ports.Store` for the contract."""

    @abstractmethod
    async def _look(self, scope: Scope, look: Callable[[StoredSession | None], T]) -> T:
        """What `look` finds in the session, which it does not change; `None` is no session."""

    async def _find(self, scope: Scope, look: Callable[[StoredSession], T]) -> T | None:
        """What `look` finds in a session that is not deleted; `None` is no such session.

        Raises:
            ScopeViolationError: it belongs to another project (D-10).
        """

        def own(session: StoredSession) -> T:
            check_project(scope, session.head.project_id)
            return look(session)

        return await self._there(scope, own)

    async def _there(self, scope: Scope, look: Callable[[StoredSession], T]) -> T | None:
        return await self._look(
            scope,
            lambda session: None if session is None or session.head.is_deleted else look(session),
        )

    async def state(
        self, scope: Scope, *, after_seq: int = 0, after_evidence: int = 0
    ) -> SessionState | None:
        return await self._there(scope, lambda session: _state(session, after_seq, after_evidence))

    async def get_session(self, scope: Scope) -> SessionDocument | None:
        return await self._find(scope, lambda session: _document(scope, session))

    async def get_evidence(self, scope: Scope, evidence_id: str) -> Evidence | None:
        rows = await self.evidence_rows(scope, [evidence_id])
        return rows[0].evidence if rows else None

    async def list_evidences(
        self, scope: Scope, filter: EvidenceFilter | None = None
    ) -> list[Evidence]:
        rows = await self._find(
            scope, lambda session: [session.with_content(row) for row in session.evidence.values()]
        )
        return row_rules.chosen_evidence((row.evidence for row in rows or ()), filter)

    async def evidence_rows(self, scope: Scope, ids: Sequence[str]) -> list[EvidenceRow]:
        wanted_ids = set(ids)
        rows = await self._find(
            scope,
            lambda session: [
                session.with_content(r) for n, r in session.evidence.items() if n in wanted_ids
            ],
        )
        return rows or []

    async def list_context_blocks(
        self, scope: Scope, filter: BlockFilter | None = None
    ) -> list[ContextBlock]:
        blocks = await self._find(
            scope, lambda session: [fresh(block) for block in session.blocks.values()]
        )
        return row_rules.chosen_blocks(blocks or (), filter)

    async def list_tasks(self, scope: Scope) -> list[Task]:
        tasks = await self._find(scope, lambda session: [fresh(t) for t in session.tasks.values()])
        return tasks or []

    async def list_turns(self, scope: Scope) -> list[TurnRow]:
        turns = await self._find(
            scope, lambda session: [readable(copy_turn(turn)) for turn in session.turns.values()]
        )
        return turns or []

    async def list_events(self, scope: Scope) -> list[Event]:
        return row_rules.own_events(scope, await self.chain(scope))

    async def whole(self, scope: Scope) -> StoredSession | None:
        return await self._look(scope, lambda session: session and session.draft())

    async def chain(self, scope: Scope) -> EventChain | None:
        return await self._look(scope, lambda session: None if session is None else _chain(session))


def versions(session: StoredSession | None, owned: Owned, scope: Scope) -> Versions:
    """The answer to the cheap read, of a session and what its owner set."""
    settings = version_of(owned, scope.project_id)
    if session is None or session.head.is_deleted:
        return Versions(settings=settings)
    return Versions(session.head.version, session.head.epoch, settings)


def listed(
    sessions: Iterable[tuple[Key, StoredSession]],
    user_id: str | None,
    ephemeral: bool,
    since: str,
    limit: int | None,
) -> list[SessionInfo]:
    """Lines of `ce sessions`, newest first; of two at the same time, the one made later."""
    entries = [
        (session.head.updated_at, session.made_at, number, _info(key, session))
        for number, (key, session) in enumerate(sessions)
        if not session.head.is_deleted
        and session.head.updated_at >= since
        and user_id in (None, key[1])
        and (ephemeral or not session.head.ephemeral)
    ]
    return [info for *_, info in sorted(entries, reverse=True)[:limit]]


def checked_session(
    session: StoredSession | None, content: ContentCheck | None
) -> CheckedSession | None:
    """A session that was read, with what was found of it."""
    if session is None or content is None:
        return None
    return CheckedSession(session.draft(), content)


def _chain(session: StoredSession) -> EventChain:
    return EventChain(replace(session.head), [fresh(event) for event in session.events])


def _state(session: StoredSession, after_seq: int, after_evidence: int) -> SessionState:
    turns, evidence = session.turns.values(), session.evidence.values()
    newest = next(reversed(turns), None)
    return SessionState(
        head=replace(session.head),
        rows=[copy_message(row) for row in session.messages if (row.message.seq or 0) > after_seq],
        cuts=[replace(mark) for mark in session.cuts.values()],
        summaries=[copy_summary(row) for row in session.summaries.values()],
        open_turns=[copy_turn(turn) for turn in turns if turn.status is TurnStatus.OPEN],
        evidence=[session.with_content(row) for row in evidence if row.seq > after_evidence],
        placeholders=list(session.placeholders.values()),
        newest_turn=copy_turn(newest) if newest is not None else None,
    )


def _document(scope: Scope, stored_session: StoredSession) -> SessionDocument:
    head = stored_session.head
    summary = row_rules.newest_summary(stored_session.summaries.values(), stored_session.summary)
    times = {"created_at": head.created_at, "updated_at": head.updated_at}
    session = Session(
        session_id=scope.session_id,
        messages=[fresh(row.message) for row in stored_session.messages],
        summary=fresh(summary) if summary else None,
        task_state=TaskState(
            todo_list=TodoList(tasks=[fresh(t) for t in stored_session.tasks.values()])
        ),
        tool_state=ToolState(tool_calls=[fresh(row.call) for row in stored_session.calls.values()]),
        model_usage=[fresh(usage) for usage in stored_session.usages.values()],
    )
    return SessionDocument(
        session=session,
        evidences={
            name: stored_session.with_content(row).evidence
            for name, row in stored_session.evidence.items()
        },
        context_blocks=[fresh(block) for block in stored_session.blocks.values()],
        meta=Meta.model_validate({**stored_session.meta.model_dump(), **times}),
    )


def _info(key: tuple[str, str, str], session: StoredSession) -> SessionInfo:
    account_id, user_id, session_id = key
    return SessionInfo(
        session_id=session_id,
        user_id=user_id,
        account_id=account_id,
        frameworks=sorted(session.frameworks - {""}),
        messages=len(session.messages),
        tool_calls=len(session.calls),
        evidences=len(session.evidence),
        turns=len(session.turns),
        ephemeral=session.head.ephemeral,
        created_at=session.head.created_at,
        updated_at=session.head.updated_at,
    )
