"""What the engine is made of; each part of its behaviour is a class of its own that works on these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from ce_engine.config import RuntimeConfig
from ce_engine.errors import ContextEngineError, StoreUnavailableError
from ce_engine.ports.embedder import Embedder
from ce_engine.ports.events import EventBus
from ce_engine.ports.evidence import EvidenceIngestor
from ce_engine.ports.ids import Clock, Hasher, IdGenerator
from ce_engine.ports.pruner import Pruner
from ce_engine.ports.redaction import Redactor
from ce_engine.ports.rendering import Assembler
from ce_engine.ports.store import Store
from ce_engine.ports.tokens import TokenEstimator
from ce_engine.prepare.blocks.material import CollectedContext
from ce_engine.runtime.background import Background
from ce_engine.runtime.event_announcer import Announcer
from ce_engine.runtime.journal import Journal, WriteGroup
from ce_engine.runtime.locks import KeyedLocks
from ce_engine.runtime.loop import LoopThread
from ce_engine.runtime.pending_work import PendingWork
from ce_engine.runtime.session_gate import Gate
from ce_engine.runtime.telemetry import TelemetryGuard
from ce_engine.runtime.workers import Workers
from ce_engine.schema.call import Answer, HostMessage, ModelCall, Prepared, TurnHandle, Usage
from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Versions
from ce_engine.sessions.owner.settings import SettingsCache
from ce_engine.sessions.sessions import Sessions
from ce_engine.sessions.view import SessionView
from ce_engine.text.redaction.pieces import is_long
from ce_engine.turns.input.context_sources import Collector
from ce_engine.turns.input.preparation import Preparation
from ce_engine.turns.input.recall import Recall
from ce_engine.turns.record.originals import Originals
from ce_engine.turns.record.tool_runs import Record
from ce_engine.turns.record.write_group import RecordGroup
from ce_engine.turns.report.archive import NOTHING, ReplayInputs, Selection


T = TypeVar("T")

Messages = Callable[[], Sequence[HostMessage]]
"""Gives the messages of a call, on the engine's thread."""


class Cache(Protocol):
    """What an adapter remembers of its host's messages; a deletion empties it."""

    def clear(self) -> None: ...


class EngineBase(ABC):
    """Components (A-26), what is shared between calls, and what one part asks of another."""

    store: Store
    config: RuntimeConfig
    estimator: TokenEstimator
    redactor: Redactor
    pruner: Pruner
    embedder: Embedder | None
    bus: EventBus
    clock: Clock
    ids: IdGenerator
    hasher: Hasher
    ingestor: EvidenceIngestor
    assembler: Assembler | None
    loop: LoopThread
    caches: WeakSet[Cache]
    _announcer: Announcer
    _background: Background
    _collector: Collector
    _embedding: Background
    _gate: Gate
    _journal: Journal
    _locks: KeyedLocks
    _originals: Originals
    _telemetry: TelemetryGuard
    _posted: PendingWork
    _sessions: Sessions
    _settings: SettingsCache
    workers: Workers

    @abstractmethod
    async def prepare(self, call: ModelCall) -> Prepared:
        """Prepare a model call."""

    @abstractmethod
    async def commit(
        self,
        turn: TurnHandle,
        answer: Answer,
        *,
        status: TurnStatus = TurnStatus.COMMITTED,
        usage: Usage | None = None,
    ) -> None:
        """Record the answer and close the turn."""

    @abstractmethod
    async def fail(
        self,
        turn: TurnHandle,
        error_code: str,
        *,
        status: TurnStatus = TurnStatus.FAILED,
        partial: str = "",
        usage: Usage | None = None,
    ) -> None:
        """Close a turn without a whole answer."""

    @abstractmethod
    async def _land_all(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything handed over is stored."""

    @abstractmethod
    async def _settle(self, scope: Scope) -> None:
        """Wait for what was posted of a session."""

    @abstractmethod
    async def _session_context(self, call: ModelCall, view: SessionView) -> CollectedContext:
        """What the session itself keeps for a call."""

    @abstractmethod
    def _summarize_on(self, records: RecordGroup) -> None:
        """See whether what was recorded is a reason for a summary."""

    @abstractmethod
    async def _run_preparation(self, preparation: Preparation) -> tuple[Prepared, Selection]:
        """Make a preparation, by words, and by meaning where that may be had in time."""

    @abstractmethod
    async def _choose(
        self,
        preparation: Preparation,
        texts: Sequence[str],
        inputs: ReplayInputs = NOTHING,
        *,
        seconds: float,
    ) -> tuple[Selection, Recall]:
        """Choose by words; where something is recalled, once more with vectors, if they come in time."""

    @abstractmethod
    def _protect(self, call: ModelCall) -> None:
        """Give a call the configuration that is its own, and keep from it what is not for it."""

    @abstractmethod
    def _records(
        self,
        view: SessionView,
        scope: Scope,
        framework: str,
        config: RuntimeConfig,
        tags: Mapping[str, str] | None = None,
    ) -> RecordGroup:
        """A group of records in the making."""

    @abstractmethod
    async def _record(
        self,
        scope: Scope,
        record: Record,
        *,
        turn: TurnHandle | None = None,
        framework: str = "",
        ephemeral: bool = False,
        as_known: bool = False,
        wait: bool = False,
        parts: Iterable[Any] = (),
    ) -> Any:
        """Run `record` on the session's view and submit what it made."""

    @abstractmethod
    async def _unstored(self, scope: Scope, group: WriteGroup | None) -> ContextEngineError | None:
        """Wait for a group of records of a session; why it is not stored."""

    async def _existing_view(self, scope: Scope) -> SessionView | None:
        """The view of a session, as the store has it now; `None` where there is none. Under its lock.

        Where the store does not answer, what is remembered will do.

        Raises:
            StoreUnavailableError: the store does not answer, and nothing is remembered.
        """
        view = self._sessions.peek(scope)
        if view is not None and (view.head.ephemeral or not view.is_stored):
            return view
        try:
            reading = self._journal.read(lambda: self.store.version(scope), Versions)
            if (await reading).version == 0:  # to ask for its view would begin it
                return None
        except StoreUnavailableError:
            if view is None:
                raise
            return view
        return (await self._sessions.view(scope, ephemeral=False))[0]

    async def _run_off_loop(self, make: Callable[[], T], texts: Iterable[Any], more: int = 0) -> T:
        """What a phase makes of texts, under its session's lock: beside the loop if that may take long.

        `more` are characters that it reads beside them. How long an owner's pattern or another's redactor takes, nobody knows.
        """
        is_predictable = not self.config.redaction.enabled or not getattr(
            self.redactor, "own_rules", True
        )
        if is_predictable and not is_long(texts, more):
            return make()
        return await self.workers.run(make)
