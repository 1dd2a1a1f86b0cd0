"""Looks for the original of each piece that was redacted, in the second store (A-19)."""

from __future__ import annotations

from collections.abc import Iterable

from ce_engine.errors import ConfigError, SessionNotFoundError
from ce_engine.ports.store import Store
from ce_engine.runtime.waiting import answered
from ce_engine.schema.document import Evidence, SessionDocument
from ce_engine.schema.events import Event, EventType
from ce_engine.schema.report import OriginalsReport
from ce_engine.schema.rows import SessionState
from ce_engine.schema.scope import Scope, as_scope, check_project
from ce_engine.stores.row_rules import DELETED_AT
from ce_engine.turns.engine_base import EngineBase


class OriginalsCheckMethods(EngineBase):
    """Compares what both stores have of a session; nothing of any content is told."""

    async def verify_originals(self, session_id: Scope | str) -> OriginalsReport:
        """Whether each redacted piece of a session has its original in the second store (A-19).

        Which ones are to be there says the session's log, and for records of older releases their rows.
        Content that was deleted misses nothing.

        Raises:
            ConfigError: no originals are kept here: there is no second store.
            SessionNotFoundError: there is no such session of this account and user.
            ScopeViolationError: it belongs to another project.
            StoreUnavailableError: one of the stores cannot be read now.
        """
        return await self.loop.share(self._verify_originals(as_scope(session_id)))

    async def _verify_originals(self, scope: Scope) -> OriginalsReport:
        second = self._originals.store
        if second is None:
            raise ConfigError(
                'no originals are kept here: set redaction.mode="dual_store" and name their store'
            )
        await self._land_all()
        state = await answered(self.store.state(scope))
        document = await answered(self.store.get_session(scope))
        if state is None or document is None:
            raise SessionNotFoundError(
                f"there is no session {scope.session_id!r} of this account and user"
            )
        check_project(scope, state.head.project_id)
        events = await answered(self.store.list_events(scope))
        return await _compared(second, scope, _redacted(state, events), _recorded(document, events))


async def _compared(
    second: Store, scope: Scope, redacted: Iterable[str], recorded: set[str]
) -> OriginalsReport:
    originals = {e.evidence_id: e for e in await answered(second.list_evidences(scope))}
    redacted_ids = list(dict.fromkeys(redacted))
    there = {name for name, original in originals.items() if _is_whole(original)}
    deleted = {name for name, original in originals.items() if DELETED_AT in original.metadata}
    return OriginalsReport(
        there=len(there),
        missing=[name for name in redacted_ids if name not in there | deleted],
        without_row=sorted(there - recorded - set(redacted_ids)),
    )


def _is_whole(original: Evidence) -> bool:
    return bool(original.content) or "data" in original.metadata


def _logged_ids(events: Iterable[Event]) -> list[str]:
    """The pieces of which the log says that the second store has their originals."""
    stored_events = (event for event in events if event.event_type == EventType.ORIGINALS_STORED)
    return [str(name) for event in stored_events for name in event.payload.get("ids", ())]


def _redacted(state: SessionState, events: Iterable[Event]) -> list[str]:
    """What was redacted, but for what was deleted."""
    deleted_ids = {row.message_id for row in state.evidence if DELETED_AT in row.evidence.metadata}
    deleted_ids |= {
        r.evidence.evidence_id for r in state.evidence if DELETED_AT in r.evidence.metadata
    }
    messages = [row.message.message_id or "" for row in state.rows if row.has_sensitive]
    evidence = [
        row.evidence.evidence_id
        for row in state.evidence
        if row.evidence.metadata.get("has_sensitive")
    ]
    return [
        name for name in [*_logged_ids(events), *messages, *evidence] if name not in deleted_ids
    ]


def _recorded(document: SessionDocument, events: Iterable[Event]) -> set[str]:
    """All that may have an original."""
    return {
        *_logged_ids(events),
        *(message.message_id or "" for message in document.session.messages),
        *document.evidences,
        *(call.tool_call_id for call in document.session.tool_state.tool_calls),
        *(block.block_id for block in document.context_blocks),
    }
