"""What redaction took out, in a second store of its own rights: written first, read on the record (A-19, A-30)."""

from __future__ import annotations

import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ce_engine.config import RuntimeConfig
from ce_engine.errors import (
    ConfigError,
    ContextEngineError,
    EvidenceNotFoundError,
    OriginalRefusedError,
    SessionNotFoundError,
    StoreUnavailableError,
    StoreUrlError,
)
from ce_engine.ports.audit import Authorize
from ce_engine.ports.ids import Clock, IdGenerator
from ce_engine.ports.store import Store
from ce_engine.runtime.journal import Journal
from ce_engine.runtime.loop import LoopThread
from ce_engine.runtime.waiting import answered
from ce_engine.schema.document import Evidence, EvidenceLinks, EvidenceSource
from ce_engine.schema.enums import EvidenceType, SourceKind
from ce_engine.schema.event_chain import payload_mac
from ce_engine.schema.events import Event, EventType
from ce_engine.schema.ids import chain_keys
from ce_engine.schema.rows import HEAD_ONLY, DeleteEvidence, EvidenceRow, PutEvidence, Write
from ce_engine.schema.scope import Scope, as_scope, check_project
from ce_engine.schema.tool_runs import Original
from ce_engine.sessions.owner.permission import allows
from ce_engine.stores import open_store
from ce_engine.stores.postgres_url import place_of
from ce_engine.stores.urls import ORIGINALS_VARIABLE, is_server, local_path, masked, server_place
from ce_engine.turns.record.tool_runs import ToolRunMethods
from ce_engine.turns.record.write_group import RecordGroup


logger = logging.getLogger("ce_engine.store")


class Originals:
    """The second store; without one it does nothing.

    An original is evidence under the id of its piece, in a session of the same scope. It is there before
    its redacted row is: where a record must be complete, no moment at which a process is killed leaves a
    row without it. A row waits while the second store is away, as it does for its own (decision 10).
    """

    def __init__(self, store: Store | None, ids: IdGenerator, clock: Clock) -> None:
        self.store = store
        self._ids, self._clock = ids, clock

    def of(self, records: RecordGroup) -> StoredFirst | None:
        """What is to be in the second store before these records are in the first."""
        scope, originals = records.view.scope, records.ingest.originals
        if self.store is None or not originals:
            return None
        return StoredFirst(
            self.store,
            scope,
            [_put(scope, original) for original in originals.values()],
            lambda store, payload: self.deletion(scope, payload, store),
        )

    def deletion(self, scope: Scope, payload: dict[str, Any], store: Store) -> Event:
        """The event of a deletion. Its MAC is under the chain's key: the session's own may go with it."""
        event = Event(
            event_type=EventType.DELETED,
            session_id=scope.session_id,
            account_id=scope.account_id,
            user_id=scope.user_id,
            event_id=self._ids.generate(),
            ts=self._clock.now_iso(),
            payload=payload,
            redacted=True,
            nonce=self._ids.generate()[:18],
        )
        event.payload_mac = payload_mac(event, chain_keys(store.secret, scope.key).own)
        return event

    async def read(self, scope: Scope, piece_ids: Sequence[str]) -> Original | None:
        """The original of the first of these that has one."""
        for piece_id in piece_ids if self.store is not None else ():
            evidence = await answered(self._open().get_evidence(scope, piece_id))
            if evidence is not None and (evidence.content or "data" in evidence.metadata):
                return Original(piece_id, evidence.content, evidence.metadata.get("data"))
        return None

    async def of_session(self, scope: Scope) -> list[Evidence]:
        """All originals of a session."""
        if self.store is None:
            return []
        return await answered(self.store.list_evidences(scope))

    async def delete(self, scope: Scope, writes: Callable[[Store], Sequence[Write]]) -> None:
        """Apply deletions, if the session is there.

        Raises:
            StoreUnavailableError: the second store cannot do it now.
        """
        if self.store is None:
            return
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
        listing = self.store.list_sessions(account_id=account_id, user_id=user_id, ephemeral=True)
        return {
            (info.account_id, info.user_id, info.session_id) for info in await answered(listing)
        }

    async def purge(self, seconds: float) -> None:
        if self.store is not None:
            await answered(self.store.purge(), seconds)

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


@dataclass(slots=True)
class StoredFirst:
    """The originals of one group of records, which the group waits for."""

    store: Store
    scope: Scope
    writes: Sequence[PutEvidence]
    deletion: Callable[[Store, dict[str, Any]], Event]
    is_stored: bool = False

    async def put(self) -> None:
        if self.is_stored:
            return
        try:
            await self.store.apply(self.scope, self.writes)
        except (StoreUnavailableError, OSError) as error:
            # The first store's name would be told beside the error of the second.
            code = error.code if isinstance(error, ContextEngineError) else type(error).__name__
            raise StoreUnavailableError(
                f"the store of the originals, which have to be there first, takes nothing ({code})"
            ) from error
        self.is_stored = True

    async def withdraw(self) -> None:
        """Take away what has no row: its session was deleted meanwhile, or the store refused it."""
        if not self.is_stored:
            return
        try:
            for write in self.writes:
                piece_id = write.row.evidence.evidence_id
                event = self.deletion(self.store, {"what": "evidence", "evidence_id": piece_id})
                await self.store.apply(
                    self.scope, [DeleteEvidence(piece_id, event, everywhere=False)]
                )
        except Exception as error:  # noqa: BLE001 - a store of somebody else's may raise anything
            logger.warning(
                "originals of %d records that were refused are still in their store (%s); "
                "ce verify --originals names them",
                len(self.writes),
                type(error).__name__,
            )
            return
        with suppress(StoreUnavailableError):  # then with the next purge
            await self.store.purge()


class OriginalMethods(ToolRunMethods):
    """The part of the engine that tells an original, and records who asked."""

    store: Store
    config: RuntimeConfig
    loop: LoopThread
    authorize: Authorize
    _journal: Journal
    _originals: Originals

    @abstractmethod
    async def _land_all(self, timeout_s: float = 5.0) -> bool:
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
        self._check_allowed(scope, actor)
        await self._land_all()
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
        original = await self._originals.read(scope, ids)

        def record(records: RecordGroup) -> None:
            ingest = records.ingest
            payload = {"actor": ingest.name(actor), "of": ingest.name(piece_id)}
            payload["found"] = "yes" if original is not None else "no"
            records.events.append(ingest.event(EventType.ORIGINAL_READ, payload=payload))

        await self._record(scope, record, wait=True)
        if not await self._journal.settle(scope):
            raise StoreUnavailableError(
                "the read of an original cannot be recorded now, so it is not told. See: ce doctor"
            )
        if original is None:
            raise missing
        return original

    def _check_allowed(self, scope: Scope, actor: str) -> None:
        if self._originals.store is None:
            why = 'none are kept: set redaction.mode="dual_store" and name their store'
        elif not self.config.redaction.audit:
            why = "nobody records who asks: set redaction.audit=True"
        elif not actor.strip():
            why = "nobody is named: give actor, the id of who asks"
        elif not allows(self.authorize, actor, "original", scope):
            why = "this actor may not: the engine's `authorize` refuses it"
        else:
            return
        raise OriginalRefusedError(f"originals are not told here, because {why}")


def second_store(config: RuntimeConfig, store: Store, second: Store | None) -> Store | None:
    """The store of the originals, if the configuration wants one.

    Raises:
        ConfigError: none is named, one is named for nothing, or it is the first store.
        StoreUrlError: the URL is not understood.
    """
    redaction = config.redaction
    if redaction.mode != "dual_store":
        if second is None:
            return None
        raise ConfigError(
            'originals is given, but nothing goes there: set redaction.mode="dual_store"'
        )
    url = redaction.originals_url or os.environ.get(ORIGINALS_VARIABLE)
    if second is None and not url:
        raise ConfigError(
            'redaction.mode="dual_store" needs a second store: name it in redaction.originals_url, in '
            f"{ORIGINALS_VARIABLE}, or hand one over as originals="
        )
    opened = second if second is not None else open_store(url, encryption=config.store.encryption)
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
            f"originals would go to the very store that must not have them ({masked(originals_url)}). Name "
            "another file, folder or database, with other rights."
        )


def _place(url: str) -> str | Path | None:
    """What a URL leads to; `None` for what each store has of its own."""
    if url.startswith("memory:"):
        return None
    if url.startswith("postgres"):
        return place_of(url)
    try:
        return server_place(url) if is_server(url) else local_path(url).resolve()
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
