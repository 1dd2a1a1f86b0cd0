"""The interface of what keeps sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from ce_engine.ports.context import SettingsStore
from ce_engine.schema.document import (
    ContextBlock,
    Evidence,
    Message,
    ModelUsage,
    SessionDocument,
    Task,
    ToolCall,
)
from ce_engine.schema.events import ContentCheck, Event
from ce_engine.schema.report import BlockFilter, EvidenceFilter, PutResult
from ce_engine.schema.rows import EventChain, EvidenceRow, SessionInfo, SessionState, TurnRow, Write
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Versions


class Transaction(Protocol):
    """A group of writes that lands together or not at all.

    Inside it writes answer nothing and reads are of before.
    """

    def add(self, *writes: Write) -> None: ...

    @property
    def result(self) -> PutResult | None:
        """The group's one result, once the block was left without an error."""
        ...


@runtime_checkable
class Store(SettingsStore, Protocol):
    """Sessions, messages, evidence, turns and events of many users (A-07). A store decides nothing.

    Every method is bound to the scope's (account, user, session), matched exactly: another user's
    session is as good as not there (B-03), and so is a deleted one but for its events. What reads
    content is refused where the session belongs to another project (D-10); `state`, `version` and
    `chain` answer all the same, with the project in the head, for whoever checks it. Appends carry
    no version and commute; `seq` and the event chain's head are taken inside the write transaction.
    `expected_version` guards replacing writes only. A failing write changes nothing. Methods may be
    called from any event loop and any thread; no call blocks the loop it is awaited on. A cancelled
    call may still land.

    Raises:
        ScopeViolationError: content was asked for from another project.
        StoreUnavailableError: the store cannot be read or written now.
        VersionConflictError: `expected_version` is not the stored version.
    """

    @property
    def url(self) -> str:
        """The URL it was opened with, without secrets."""
        ...

    @property
    def secret(self) -> bytes:
        """The install's secret for fingerprints; it is not kept inside the store."""
        ...

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        """Apply all writes in order, in one transaction; the version rises by one."""
        ...

    def transaction(self, scope: Scope) -> AbstractAsyncContextManager[Transaction]:
        """Collect writes and apply them when the block ends without an error."""
        ...

    async def state(
        self, scope: Scope, *, after_seq: int = 0, after_evidence: int = 0
    ) -> SessionState | None:
        """What a view needs: the head, rows and evidence with a higher `seq`, cuts, turns; `None` if no session."""
        ...

    async def version(self, scope: Scope) -> Versions:
        """What moved since the last look, of the session and of its owner's settings, in one cheap read."""
        ...

    async def get_session(self, scope: Scope) -> SessionDocument | None:
        """The whole document, messages in order of `seq`."""
        ...

    async def list_sessions(
        self,
        *,
        account_id: str = "",
        user_id: str | None = "",
        ephemeral: bool = False,
        since: str = "",
        limit: int | None = None,
    ) -> list[SessionInfo]:
        """Sessions of one user, newest first; `user_id=None` lists all users of the account, for its operator.

        Only those that were written to at `since` (UTC, ISO 8601) or later, and the newest `limit` of
        them: whoever looks for what is new pays for that alone, as far as the store can.
        """
        ...

    async def get_evidence(self, scope: Scope, evidence_id: str) -> Evidence | None: ...

    async def list_evidences(
        self,
        scope: Scope,
        filter: EvidenceFilter | None = None,
    ) -> list[Evidence]:
        """In order of arrival; `limit` takes the first ones."""
        ...

    async def evidence_rows(self, scope: Scope, ids: Sequence[str]) -> list[EvidenceRow]: ...

    async def list_context_blocks(
        self,
        scope: Scope,
        filter: BlockFilter | None = None,
    ) -> list[ContextBlock]: ...

    async def list_tasks(self, scope: Scope) -> list[Task]: ...

    async def list_turns(self, scope: Scope) -> list[TurnRow]:
        """In order of opening."""
        ...

    async def list_events(self, scope: Scope) -> list[Event]:
        """In order of `seq`; of a deleted session what is left of them."""
        ...

    async def chain(self, scope: Scope) -> EventChain | None:
        """The events and the head that they end in, in one read, of a deleted session too (B-01)."""
        ...

    async def check_content(self, scope: Scope) -> ContentCheck | None:
        """Compare what is kept of a session with the MACs of it; `None` if it was never there (B-01).

        A store that keeps no MACs says `schema.events.NO_MACS`, one whose content nothing but this
        process can change an empty `ContentCheck`.
        """
        ...

    async def list_keys(self) -> list[tuple[str, str, str]]:
        """The account, user and session of all that is kept, deleted sessions too, for its operator."""
        ...

    async def purge(self) -> None:
        """Leave nothing of what was deleted in any byte of what is kept (A-30).

        To be called after deletions; without any since the last time it costs nothing. It may take as
        long as writing everything once more.

        Raises:
            StoreUnavailableError: it cannot be done now; it is still to be done.
            DeletedBytesError: a server keeps bytes of it until its operator does something.
        """
        ...

    async def put_session(
        self, scope: Scope, document: SessionDocument, expected_version: int | None = None
    ) -> PutResult:
        """Replace the whole document."""
        ...

    async def patch_session(
        self, scope: Scope, patch: Mapping[str, Any], expected_version: int | None = None
    ) -> PutResult:
        """Replace the named fields of `session`."""
        ...

    async def append_messages(self, scope: Scope, messages: Sequence[Message]) -> PutResult: ...

    async def put_evidence(self, scope: Scope, evidence: Evidence) -> str:
        """Store a piece of evidence once and answer its id."""
        ...

    async def put_context_blocks(
        self, scope: Scope, blocks: Sequence[ContextBlock]
    ) -> PutResult: ...

    async def append_tool_calls(
        self, scope: Scope, tool_calls: Sequence[ToolCall], expected_version: int | None = None
    ) -> PutResult: ...

    async def append_model_usage(
        self, scope: Scope, usages: Sequence[ModelUsage], expected_version: int | None = None
    ) -> PutResult: ...

    async def upsert_tasks(
        self, scope: Scope, tasks: Sequence[Task], expected_version: int | None = None
    ) -> PutResult: ...

    async def check(self) -> None:
        """Open the store and prove that it can be read and written.

        Raises:
            StoreUnavailableError: it cannot; the message names the cure.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted and let go of files, threads and connections."""
        ...
