"""A store in this process's memory: nothing is kept longer, everything else is as in the others."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ce_engine.errors import StoreUnavailableError
from ce_engine.ports import Clock, IdGenerator
from ce_engine.schema.document import (
    ContextBlock,
    Evidence,
    Meta,
    Session,
    SessionDocument,
    TaskState,
    TodoList,
    ToolState,
)
from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.events import Event
from ce_engine.schema.ids import Fingerprinter, chain_key
from ce_engine.schema.report import BlockFilter, EvidenceFilter, PutResult
from ce_engine.schema.rows import (
    CreateSession,
    EventChain,
    EvidenceRow,
    SessionHead,
    SessionInfo,
    SessionState,
    TurnRow,
    Write,
)
from ce_engine.schema.scope import Scope
from ce_engine.stores import rules, secret
from ce_engine.stores.base import BaseStore
from ce_engine.stores.codec import fresh
from ce_engine.stores.fork import survive_fork
from ce_engine.stores.kept import Change, Kept, copy_message, copy_turn
from ce_engine.stores.urls import MEMORY


class MemoryStore(BaseStore):
    """Sessions of this process; thread-safe. See `ports.Store` for the contract."""

    def __init__(self, *, clock: Clock | None = None, ids: IdGenerator | None = None) -> None:
        super().__init__(clock=clock, ids=ids)
        self._sessions: dict[tuple[str, str, str], Kept] = {}
        self._lock = threading.Lock()
        self._closed = False
        survive_fork(self)

    @property
    def url(self) -> str:
        return MEMORY

    @property
    def secret(self) -> bytes:
        return secret.from_environment() or secret.of_process()

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        now = self._clock.now_iso()
        with self._open():
            old = self._sessions.get(scope.key)
            there = 0 if old is None or old.head.is_deleted else old.head.version
            rules.check_version(scope, expected_version, there)
            if not writes:
                return PutResult(success=True, version=there)
            change = self._begin(scope, old, writes, now)
            for write in writes:
                change.run(scope, write)
            self._sessions[scope.key] = change.kept
            version = change.kept.head.version
            return PutResult(success=True, version=version, removed=change.removed)

    def _begin(self, scope: Scope, old: Kept | None, writes: Sequence[Write], now: str) -> Change:
        asked = next((write for write in writes if isinstance(write, CreateSession)), None)
        new = old is None or old.head.is_deleted
        kept = Kept(SessionHead()) if old is None else old.draft()
        if new:
            self._begin_life(scope, kept.head, asked, now)
        rules.check_key(scope, writes, kept.head.key_id, kept.head.epoch)
        kept.head.version += 1
        kept.head.updated_at = kept.last_accessed_at = now
        kept.access_count += 1
        return Change(kept, chain_key(self.secret), new and asked is None, now)

    def _begin_life(
        self, scope: Scope, head: SessionHead, asked: CreateSession | None, now: str
    ) -> None:
        """Make a session of a head that is new, or that a deleted session left behind."""
        if asked is None:
            salt = os.urandom(16)
            asked = CreateSession(salt, Fingerprinter(self.secret, salt, scope).key_id)
        head.salt, head.key_id, head.ephemeral = asked.salt, asked.key_id, asked.ephemeral
        head.created_at, head.project_id = asked.at or now, scope.project_id

    async def state(
        self, scope: Scope, *, after_seq: int = 0, after_evidence: int = 0
    ) -> SessionState | None:
        with self._find(scope) as kept:
            if kept is None:
                return None
            turns = kept.turns.values()
            evidence = kept.evidence.values()
            return SessionState(
                head=replace(kept.head),
                rows=[copy_message(r) for r in kept.messages if (r.message.seq or 0) > after_seq],
                cuts=[replace(mark) for mark in kept.cuts.values()],
                open_turns=[copy_turn(turn) for turn in turns if turn.status is TurnStatus.OPEN],
                evidence=[kept.with_content(row) for row in evidence if row.seq > after_evidence],
                placeholders=list(kept.placeholders.values()),
            )

    async def version(self, scope: Scope) -> tuple[int, int] | None:
        with self._find(scope) as kept:
            return (kept.head.version, kept.head.epoch) if kept else None

    async def get_session(self, scope: Scope) -> SessionDocument | None:
        with self._find(scope) as kept:
            return None if kept is None else _document(scope, kept)

    async def list_sessions(
        self, *, account_id: str = "", user_id: str | None = "", ephemeral: bool = False
    ) -> list[SessionInfo]:
        with self._open():
            found = [
                _info(key, kept)
                for key, kept in self._sessions.items()
                if not kept.head.is_deleted
                and key[0] == account_id
                and user_id in (None, key[1])
                and (ephemeral or not kept.head.ephemeral)
            ]
        found.reverse()  # of two at the same time, the one made later comes first
        return sorted(found, key=lambda info: info.updated_at, reverse=True)

    async def get_evidence(self, scope: Scope, evidence_id: str) -> Evidence | None:
        rows = await self.evidence_rows(scope, [evidence_id])
        return rows[0].evidence if rows else None

    async def list_evidences(
        self, scope: Scope, filter: EvidenceFilter | None = None
    ) -> list[Evidence]:
        with self._find(scope) as kept:
            rows = [] if kept is None else [kept.with_content(r) for r in kept.evidence.values()]
        return rules.chosen_evidence((row.evidence for row in rows), filter)

    async def evidence_rows(self, scope: Scope, ids: Sequence[str]) -> list[EvidenceRow]:
        wanted = set(ids)
        with self._find(scope) as kept:
            rows = {} if kept is None else kept.evidence
            return [kept.with_content(r) for name, r in rows.items() if kept and name in wanted]

    async def list_context_blocks(
        self, scope: Scope, filter: BlockFilter | None = None
    ) -> list[ContextBlock]:
        with self._find(scope) as kept:
            blocks = [] if kept is None else [fresh(block) for block in kept.blocks.values()]
        return rules.chosen_blocks(blocks, filter)

    async def list_turns(self, scope: Scope) -> list[TurnRow]:
        with self._find(scope) as kept:
            return [] if kept is None else [copy_turn(turn) for turn in kept.turns.values()]

    async def list_events(self, scope: Scope) -> list[Event]:
        found = await self.chain(scope)
        return found.events if found else []

    async def chain(self, scope: Scope) -> EventChain | None:
        with self._open():
            kept = self._sessions.get(scope.key)
            if kept is None:
                return None
            return EventChain(replace(kept.head), [fresh(event) for event in kept.events])

    async def purge(self) -> None:
        """Nothing to do: what was deleted is nowhere any more."""

    async def check(self) -> None:
        with self._open():
            pass

    async def close(self) -> None:
        self._closed = True

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise StoreUnavailableError("the store was closed; open it again")
            yield

    @contextmanager
    def _find(self, scope: Scope) -> Iterator[Kept | None]:
        with self._open():
            kept = self._sessions.get(scope.key)
            yield None if kept is None or kept.head.is_deleted else kept

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, child: bool) -> None:
        del child
        self._lock.release()


def _document(scope: Scope, kept: Kept) -> SessionDocument:
    head = kept.head
    times = {"created_at": head.created_at, "updated_at": head.updated_at}
    session = Session(
        session_id=scope.session_id,
        messages=[fresh(row.message) for row in kept.messages],
        summary=fresh(kept.summary) if kept.summary else None,
        task_state=TaskState(todo_list=TodoList(tasks=[fresh(t) for t in kept.tasks.values()])),
        tool_state=ToolState(tool_calls=[fresh(row.call) for row in kept.calls.values()]),
        model_usage=[fresh(usage) for usage in kept.usages.values()],
    )
    return SessionDocument(
        session=session,
        evidences={name: kept.with_content(row).evidence for name, row in kept.evidence.items()},
        context_blocks=[fresh(block) for block in kept.blocks.values()],
        meta=Meta.model_validate({**kept.meta.model_dump(), **times}),
    )


def _info(key: tuple[str, str, str], kept: Kept) -> SessionInfo:
    account_id, user_id, session_id = key
    return SessionInfo(
        session_id=session_id,
        user_id=user_id,
        account_id=account_id,
        frameworks=sorted(kept.frameworks - {""}),
        messages=len(kept.messages),
        tool_calls=len(kept.calls),
        evidences=len(kept.evidence),
        turns=len(kept.turns),
        ephemeral=kept.head.ephemeral,
        created_at=kept.head.created_at,
        updated_at=kept.head.updated_at,
    )
