"""What redaction took out, in a second store of its own rights: written after, read on the record (A-19, A-30)."""

from __future__ import annotations

import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from ce_engine.config import RuntimeConfig
from ce_engine.errors import (
    ConfigError,
    EvidenceNotFoundError,
    OriginalRefusedError,
    SessionNotFoundError,
    StoreUnavailableError,
    StoreUrlError,
)
from ce_engine.ports.store import Store
from ce_engine.runtime.gaps import Gap
from ce_engine.runtime.journal import Journal, Landed
from ce_engine.runtime.loop import LoopThread
from ce_engine.runtime.waiting import answered
from ce_engine.schema.document import Evidence, EvidenceLinks, EvidenceSource
from ce_engine.schema.enums import EvidenceType, SourceKind
from ce_engine.schema.events import EventType
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import HEAD_ONLY, CreateSession, EvidenceRow, PutEvidence, Write
from ce_engine.schema.scope import Scope, as_scope, check_project
from ce_engine.schema.tool_runs import Original
from ce_engine.stores import open_store
from ce_engine.stores.urls import ORIGINALS_VARIABLE, local_path
from ce_engine.turns.record.tool_runs import ToolRunMethods
from ce_engine.turns.record.write_group import RecordGroup


logger = logging.getLogger("ce_engine.store")


class Originals:
    """The second store behind a journal of its own; without a store it does nothing.

    An original is evidence under the id of its piece, in a session of the same scope. It is written once
    its redacted row has landed, so that nothing is kept of what was refused. Where the second store is
    away, calls go on, and it is written later (decision 10).
    """

    def __init__(self, store: Store | None, loop: LoopThread, config: RuntimeConfig) -> None:
        self.store = store
        self._journal = Journal(store, loop, config.store, _lost) if store is not None else None

    def after(self, records: RecordGroup) -> Landed:
        """What is to be done when a group of records has landed: their originals follow."""
        view, originals = records.view, records.ingest.originals
        journal, key_id, scope = self._journal, view.head.key_id, view.scope
        if journal is None or not originals:
            return view.landed
        head = view.head  # its salt stays where it is: nothing here needs it
        begin = CreateSession(key_id.encode(), key_id, head.ephemeral, head.created_at)
        writes: list[Write] = [begin, *(_put(scope, each) for each in originals.values())]

        def landed(result: PutResult) -> None:
            view.landed(result)
            if result.success:
                journal.submit(scope, writes)

        return landed

    async def read(self, scope: Scope, piece_ids: Sequence[str]) -> Original | None:
        """The original of the first of these that has one."""
        for piece_id in piece_ids if self.store is not None else ():
            found = await answered(self._open().get_evidence(scope, piece_id))
            if found is not None and (found.content or "data" in found.metadata):
                return Original(piece_id, found.content, found.metadata.get("data"))
        return None

    async def delete(self, scope: Scope, writes: Callable[[Store], Sequence[Write]]) -> None:
        """Apply deletions, if the session is there.

        Raises:
            StoreUnavailableError: the second store cannot do it now.
        """
        if self._journal is None:
            return
        if not await self._journal.settle(scope):
            raise StoreUnavailableError(
                "originals of this session are still on their way to their store; delete it again"
            )
        store = self._open()
        if (await answered(store.version(scope))).version == 0:
            return
        for write in writes(store):
            try:
                await answered(store.apply(scope, [write]))
            except SessionNotFoundError:
                return

    async def keys_of(self, account_id: str, user_id: str) -> set[tuple[str, str, str]]:
        """The sessions of one user that have originals."""
        if self.store is None:
            return set()
        asked = self.store.list_sessions(account_id=account_id, user_id=user_id, ephemeral=True)
        return {(info.account_id, info.user_id, info.session_id) for info in await answered(asked)}

    async def purge(self, seconds: float) -> None:
        if self.store is not None:
            await answered(self.store.purge(), seconds)

    @property
    def waiting(self) -> int:
        """How many groups have not landed yet."""
        return self._journal.waiting if self._journal is not None else 0

    async def flush(self, timeout_s: float) -> bool:
        return await self._journal.flush(timeout_s) if self._journal is not None else True

    async def check_with(self, first: Store) -> None:
        """Prove that both stores work."""
        await first.check()
        if self.store is not None:
            await self.store.check()

    async def close(self) -> None:
        if self.store is not None:
            await self.store.close()

    def _open(self) -> Store:
        assert self.store is not None
        return self.store


class OriginalMethods(ToolRunMethods):
    """The part of the engine that tells an original, and records who asked."""

    store: Store
    config: RuntimeConfig
    loop: LoopThread
    _journal: Journal
    _originals: Originals

    @abstractmethod
    async def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything handed over is stored."""

    async def original(self, session_id: Scope | str, piece_id: str, *, actor: str) -> Original:
        """What a message, a piece of evidence, or the arguments of a tool call were before redaction (A-19).

        Only with `mode="dual_store"` and the audit switch on. Each read is an event in the session's log
        before anything is told; it names `actor`, redacted as all that is stored: give an id, no address.

        Raises:
            OriginalRefusedError: the audit switch is off, no originals are kept, or nobody is named.
            EvidenceNotFoundError: this user's session has no original of this id.
            ScopeViolationError: the session belongs to another project.
            StoreUnavailableError: a store cannot be read, or the read cannot be recorded.
        """
        return await self.loop.share(self._original(as_scope(session_id), piece_id, actor))

    async def _original(self, scope: Scope, piece_id: str, actor: str) -> Original:
        self._check_allowed(actor)
        await self.flush()
        state = await answered(
            self.store.state(scope, after_seq=HEAD_ONLY, after_evidence=HEAD_ONLY)
        )
        missing = EvidenceNotFoundError(
            f"there is no original {piece_id!r} in session {scope.session_id!r} of user "
            f"{scope.user_id!r}. Only what was redacted has one, under the id of its message, "
            "evidence or tool call."
        )
        if state is None:
            raise missing
        check_project(scope, state.head.project_id)
        rows = await answered(self.store.evidence_rows(scope, [piece_id]))
        ids = [piece_id, *(row.message_id for row in rows if row.message_id)]
        found = await self._originals.read(scope, ids)

        def record(records: RecordGroup) -> None:
            ingest = records.ingest
            payload = {"actor": ingest.name(actor), "of": ingest.name(piece_id)}
            payload["found"] = "yes" if found is not None else "no"
            records.events.append(ingest.event(EventType.ORIGINAL_READ, payload=payload))

        await self._record(scope, record, wait=True)
        if not await self._journal.settle(scope):
            raise StoreUnavailableError(
                "the read of an original cannot be recorded now, so it is not told. See: ce doctor"
            )
        if found is None:
            raise missing
        return found

    def _check_allowed(self, actor: str) -> None:
        if self._originals.store is None:
            why = 'none are kept: set redaction.mode="dual_store" and name their store'
        elif not self.config.redaction.audit:
            why = "nobody records who asks: set redaction.audit=True"
        elif not actor.strip():
            why = "nobody is named: give actor, the id of who asks"
        else:
            return
        raise OriginalRefusedError(f"originals are not told here, because {why}")


def second_store(config: RuntimeConfig, store: Store, given: Store | None) -> Store | None:
    """The store of the originals, if the configuration wants one.

    Raises:
        ConfigError: none is named, one is named for nothing, or it is the first store.
        StoreUrlError: the URL is not understood.
    """
    redaction = config.redaction
    if redaction.mode != "dual_store":
        if given is None:
            return None
        raise ConfigError(
            'originals is given, but nothing goes there: set redaction.mode="dual_store"'
        )
    url = redaction.originals_url or os.environ.get(ORIGINALS_VARIABLE)
    if given is None and not url:
        raise ConfigError(
            'redaction.mode="dual_store" needs a second store: name it in redaction.originals_url, in '
            f"{ORIGINALS_VARIABLE}, or hand one over as originals="
        )
    opened = given if given is not None else open_store(url)
    check_apart(store.url, opened.url)
    if opened is store:
        raise ConfigError("originals is the store itself; hand over another one, with other rights")
    return opened


def check_apart(url: str, originals_url: str) -> None:
    """See that the originals have a place of their own.

    Raises:
        ConfigError: it is the first store's.
    """
    place = _place(url)
    if place is not None and place == _place(originals_url):
        raise ConfigError(
            f"originals would go to the very store that must not have them ({originals_url}). Name "
            "another file, folder or database, with other rights."
        )


def _place(url: str) -> str | Path | None:
    """What a URL leads to; `None` for what each store has of its own."""
    if url.startswith("memory:"):
        return None
    try:
        return local_path(url).resolve()
    except StoreUrlError:
        return url


def _put(scope: Scope, original: Original) -> PutEvidence:
    evidence = Evidence(
        evidence_id=original.id,
        type=EvidenceType.OTHER,
        source=EvidenceSource(kind=SourceKind.SYSTEM, name="original"),
        content=original.content,
        metadata={} if original.data is None else {"data": original.data},
        links=EvidenceLinks(),
    )
    return PutEvidence(EvidenceRow(evidence, project_id=scope.project_id))


def _lost(gap: Gap) -> None:
    logger.warning(
        "originals of %d groups were lost: their store took none for too long", gap.groups
    )
