"""The engine: fetch, prepare, let the host invoke, upload; I/O and order, no policy (A-13, A-15)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from weakref import WeakSet

from ce_engine.audit.access import AccessGuard, guarded, only_own_scope
from ce_engine.audit.exporting import ExportMethods
from ce_engine.audit.guarded_settings import GuardedBudgets, GuardedConstraints
from ce_engine.audit.handover import HandoverMethods
from ce_engine.audit.inspection import InspectionMethods
from ce_engine.audit.judging import JudgeMethods
from ce_engine.audit.originals_check import OriginalsCheckMethods
from ce_engine.audit.reading import ReadMethods
from ce_engine.audit.replay import ReplayMethods
from ce_engine.audit.retention import RetentionMethods
from ce_engine.audit.trace import TraceMethods
from ce_engine.config import RuntimeConfig
from ce_engine.errors import BackpressureError, ConfigError
from ce_engine.memory.compaction import CompactionMethods
from ce_engine.memory.embedding import EmbeddingMethods
from ce_engine.ports.audit import AuditSink, Authorize
from ce_engine.ports.blocks import BlockDeriver
from ce_engine.ports.context import ContextSource, Judge
from ce_engine.ports.embedder import Embedder
from ce_engine.ports.events import EventBus
from ce_engine.ports.evidence import EvidenceIngestor
from ce_engine.ports.ids import Clock, Hasher, IdGenerator
from ce_engine.ports.llm import LlmAdapter
from ce_engine.ports.pruner import Pruner
from ce_engine.ports.redaction import Redactor
from ce_engine.ports.rendering import Assembler, Renderer
from ce_engine.ports.store import Store
from ce_engine.ports.telemetry import Telemetry
from ce_engine.ports.tokens import TokenEstimator
from ce_engine.prepare.choose.prune import GreedyPriorityPruner
from ce_engine.runtime.event_announcer import Announcer
from ce_engine.runtime.event_bus import InMemoryEventBus
from ce_engine.runtime.journal import Journal, WriteGroup
from ce_engine.runtime.locks import KeyedLocks
from ce_engine.runtime.loop import LoopThread
from ce_engine.runtime.own_calls import Summarizer
from ce_engine.runtime.pending_work import PendingWork
from ce_engine.runtime.session_gate import Gate
from ce_engine.runtime.telemetry import TelemetryGuard, describe
from ce_engine.runtime.waiting import settled
from ce_engine.runtime.workers import Workers
from ce_engine.schema.arguments import doors
from ce_engine.schema.call import Answer, ModelCall, Prepared, TurnHandle, Usage
from ce_engine.schema.document import Message, Ref
from ce_engine.schema.enums import Role, TurnStatus
from ce_engine.schema.events import EventType
from ce_engine.schema.ids import Sha256Hasher, SystemClock, UuidV4Generator
from ce_engine.schema.report import Report
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.schema.selectors import RefSelector
from ce_engine.sessions.owner.settings import OwnerValues, SettingsCache
from ce_engine.sessions.sessions import Sessions
from ce_engine.sessions.view import OpenTurn
from ce_engine.text.redaction.pieces import answer_texts
from ce_engine.text.redaction.redact import PatternRedactor
from ce_engine.text.tokens import default_estimator
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.text.tokens.prices import prices_here
from ce_engine.turns.by_hand import ByHandMethods
from ce_engine.turns.engine_base import Messages
from ce_engine.turns.evidence_tool import EvidenceToolMethods
from ce_engine.turns.input.admission import AdmissionMethods, QueuedTurn
from ce_engine.turns.input.context_sources import Collector
from ce_engine.turns.input.preparation import Preparation
from ce_engine.turns.input.session_blocks import BlockSource
from ce_engine.turns.lifecycle import LifecycleMethods
from ce_engine.turns.record.answers import commit_turn, fail_turn, is_open, joined
from ce_engine.turns.record.confidence import RuleIngestor
from ce_engine.turns.record.import_history import ImportMethods
from ce_engine.turns.record.ingestion import IngestionMethods
from ce_engine.turns.record.originals import OriginalMethods, Originals, second_store
from ce_engine.turns.record.recorder import RecordMethods
from ce_engine.turns.record.write_group import RecordGroup
from ce_engine.turns.report.over_budget import OverBudgetLog
from ce_engine.turns.report.telemetry import (
    of_answer,
    of_call,
    of_failure,
    of_preparation,
    of_turn,
    of_usage,
)


logger = logging.getLogger("ce_engine")


def _redactor(config: RuntimeConfig, own: Redactor | None) -> Redactor:
    """The engine's redactor.

    Raises:
        ConfigError: a detector is configured that the redactor of somebody's own would not ask.
    """
    if own is not None and config.redaction.detector is not None:
        raise ConfigError(
            "the engine has a redactor of your own and RedactionConfig.detector, which it would not "
            "ask: leave one of them out"
        )
    return own or PatternRedactor.configured(config.redaction)


@guarded()
@doors
class Engine(
    AdmissionMethods,
    RecordMethods,
    LifecycleMethods,
    ByHandMethods,
    ImportMethods,
    IngestionMethods,
    OriginalMethods,
    BlockSource,
    TraceMethods,
    ReplayMethods,
    InspectionMethods,
    ReadMethods,
    EvidenceToolMethods,
    RetentionMethods,
    HandoverMethods,
    OriginalsCheckMethods,
    CompactionMethods,
    JudgeMethods,
    EmbeddingMethods,
    ExportMethods,
):
    """Prepares model calls and records what comes of them, for many sessions at once.

    Async methods run on the caller's loop and never block it; different sessions never wait for
    each other. Components are injected (A-26); what is not given is the default.
    """

    def __init__(  # noqa: PLR0913 - one parameter a component (A-26)
        self,
        store: Store,
        *,
        config: RuntimeConfig | None = None,
        token_estimator: TokenEstimator | None = None,
        redactor: Redactor | None = None,
        pruner: Pruner | None = None,
        llm_adapter: LlmAdapter | None = None,
        summarizer: Summarizer | None = None,
        deriver: BlockDeriver | None = None,
        renderer: Renderer | None = None,
        assembler: Assembler | None = None,
        ingestor: EvidenceIngestor | None = None,
        ref_selector: RefSelector | None = None,
        event_bus: EventBus | None = None,
        clock: Clock | None = None,
        id_generator: IdGenerator | None = None,
        authorize: Authorize | None = None,
        audit: AuditSink | None = None,
        hasher: Hasher | None = None,
        originals: Store | None = None,
        sources: Sequence[ContextSource] = (),
        judge: Judge | None = None,
        embedder: Embedder | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.store, self.config = store, config or RuntimeConfig()
        self.estimator = token_estimator or default_estimator()
        self.redactor = _redactor(self.config, redactor)
        self.pruner = pruner or GreedyPriorityPruner()
        self._use(deriver, renderer, ref_selector)
        self.assembler, self.judge, self.ingestor = assembler, judge, ingestor or RuleIngestor()
        self.bus: EventBus = event_bus or InMemoryEventBus()
        self.clock, self.ids = clock or SystemClock(), id_generator or UuidV4Generator()
        self.authorize, self.hasher = authorize or only_own_scope, hasher or Sha256Hasher()
        self.guard = AccessGuard(audit, self.ids, self.clock)
        self._begin(originals, sources, telemetry)
        self._begin_summaries(llm_adapter, summarizer)
        self._begin_embedding(embedder)

    def _begin(
        self,
        originals: Store | None,
        sources: Sequence[ContextSource],
        telemetry: Telemetry | None,
    ) -> None:
        """The threads and what is shared between calls."""
        self._telemetry = TelemetryGuard(telemetry)
        prices_here()  # what is wrong with them is told now, not at a call
        config, store = self.config, self.store
        self.loop = LoopThread()
        self._announcer = Announcer(self.bus, config.store.deadline_s)
        tripped = self._telemetry.tripped
        self._journal = Journal(store, self.loop, config.store, self._name_gap, tripped)
        self._originals = Originals(second_store(config, store, originals), self.ids, self.clock)
        self._sessions = Sessions(
            store, self._journal, self.redactor, config, self.clock, self._forget_words
        )
        self._locks = KeyedLocks()
        self.caches = WeakSet()
        self._gate = Gate()
        self._over_budget = OverBudgetLog()
        self._posted = PendingWork()
        self.workers = Workers()
        self._settings = SettingsCache(store, self._journal)
        self._collector = Collector(self._settings, sources)
        self.constraints = GuardedConstraints(self._settings, self)
        self.budgets = GuardedBudgets(self._settings, self)

    # Prepare

    async def prepare(self, call: ModelCall, *, messages: Messages | None = None) -> Prepared:
        """Prepare a model call; what is new of it is recorded while the model works.

        Args:
            call: the call.
            messages: gives its messages in the place of `call.messages`; runs on the engine's thread,
                so that the caller's does not pay for it.

        Raises:
            BudgetExceededError: with `fail="closed"`, what may never be left out is over the budget.
            StoreUnavailableError: with `fail="closed"`, what the call brings is not stored.
        """
        if self.loop.is_current():
            return await self._timed(call, messages)
        future = self.loop.submit(self._timed(call, messages))
        try:
            await settled(future)
        except BaseException:  # the caller is cancelled: nobody will commit this turn
            future.add_done_callback(self._abandon)
            raise
        return future.result()

    async def _timed(self, call: ModelCall, messages: Messages | None) -> Prepared:
        with self._telemetry.operation("prepare"):
            return await self._mapped(call, messages)

    async def _mapped(self, call: ModelCall, messages: Messages | None) -> Prepared:
        if messages is not None:
            call.messages = messages()
        self._protect(call)
        return await self._admitted(call)

    async def _prepare(
        self, call: ModelCall, queued: TurnHandle | None = None
    ) -> tuple[Prepared, WriteGroup | None]:
        config = call.config or self.config
        await self._settle(call.scope)
        fetched = await self._collector.fetch(call, config)
        async with self._locks.hold(call.scope.key):
            view, degraded = await self._sessions.view(call.scope, ephemeral=call.ephemeral)
            owned = OwnerValues()
            if queued is None:
                owned = await self._collector.owned(call, view)
                config = owned.budgeted(config)
            else:
                degraded.append(BackpressureError.code)
            context = await self._session_context(call, view)
            model = call.model_hint or config.model_hint
            counter = Counter(self.estimator, model, config.provider_hint)
            collected = self._collector.collect(
                call, config, view, owned=owned, fetched=fetched, base=context, count=counter.text
            )
            records = self._records(view, call.scope, call.framework, config, call.tags)
            records.begin(degraded, collected)
            turn_id = queued.turn_id if queued is not None else ""
            try:
                preparation = Preparation(
                    call, config, records, counter, self.pruner, degraded, collected, turn_id
                )
                prepared, _ = await self._run_preparation(preparation)
                if queued is not None:
                    self._adopt(queued, prepared)
                group = self._submit(records, await self._run_off_loop(records.finish, ()))
            except BaseException:
                self._sessions.drop(call.scope)  # it may hold half of this call
                raise
            self._sessions.grown(view)
            self._embed_before(view, prepared.report)
        self._remember(records, config, prepared)
        return prepared, group

    def _remember(self, records: RecordGroup, config: RuntimeConfig, prepared: Prepared) -> None:
        describe(lambda: of_call(prepared.call, records.ingest) | of_preparation(prepared))
        scope, report = prepared.turn.scope, prepared.report
        self._sessions.remember(scope, report)
        clean = records.ingest.id
        if report.rules_dropped:
            rules = [clean(rule) for rule in report.rules_dropped]
            self._over_budget.tell_rules(scope.key, clean(scope.session_id), rules)
        self._over_budget.tell_dearer(scope.key, clean(scope.session_id), report)
        if config.fail == "open":  # else it does not go out
            self._over_budget.tell(scope.key, clean(scope.session_id), report)

    # Upload

    async def commit(
        self,
        turn: TurnHandle,
        answer: Answer,
        *,
        status: TurnStatus = TurnStatus.COMMITTED,
        usage: Usage | None = None,
    ) -> None:
        """Record the answer and close the turn. A second commit of the same turn is ignored."""

        def record(records: RecordGroup) -> None:
            if is_open(records.view, turn):
                counter = self._counter(answer.model)
                commit_turn(records, turn.turn_id, answer, status, usage, counter)
                describe(lambda: of_turn(turn, records.ingest))
                describe(lambda: of_answer(answer, usage, status, records.ingest))
            elif turn.status is TurnStatus.ABANDONED:
                logger.warning(
                    "a session was deleted while a call of it was under way, or its record was given "
                    "up: the answer is not recorded"
                )

        with self._telemetry.operation("commit"):
            await self._record(turn.scope, record, turn=turn, wait=True, parts=answer_texts(answer))
        if status is TurnStatus.COMMITTED:
            self._summarize_soon(turn.state)
            self._embed_after(turn.scope)
            self._judge_soon(turn.state)
        self._sweep_soon()

    async def fail(
        self,
        turn: TurnHandle,
        error_code: str,
        *,
        status: TurnStatus = TurnStatus.FAILED,
        partial: str = "",
        usage: Usage | None = None,
    ) -> None:
        """Close a turn without a whole answer; `partial` is what had come of it."""

        def record(records: RecordGroup) -> None:
            if is_open(records.view, turn):
                counter = self._counter("")
                fail_turn(records, turn.turn_id, error_code, status, partial, usage, counter)
                describe(lambda: of_turn(turn, records.ingest) | of_usage(usage))
                describe(lambda: of_failure(error_code, status, records.ingest))

        texts = [error_code, partial, *getattr(turn.state, "chunks", {}).values()]
        with self._telemetry.operation("commit"):
            await self._record(turn.scope, record, turn=turn, wait=True, parts=texts)

    def chunk(self, turn: TurnHandle, index: int, text: str) -> None:
        """Keep a piece of a streamed answer; the bus hears its index and length, never the text (A-14)."""
        opened = turn.state
        if isinstance(opened, OpenTurn | QueuedTurn):
            opened.chunks[index] = text
        view = self._sessions.peek(turn.scope)
        if view is not None and isinstance(opened, OpenTurn) and self._announcer.is_heard:
            event = self._records(view, turn.scope, opened.row.framework, self.config).ingest.event(
                EventType.ASSISTANT_CHUNK_RECEIVED,
                payload={"index": index, "length": len(text)},
                turn_id=turn.turn_id,
                request_id=turn.request_id,
            )
            self._announcer.tell(turn.scope, [event])

    async def finalize(
        self,
        turn: TurnHandle,
        *,
        status: TurnStatus = TurnStatus.COMMITTED,
        usage: Usage | None = None,
        answer: Answer | None = None,
        refs: Sequence[Ref] | None = None,
    ) -> None:
        """End a streamed answer; without `answer` the chunks are joined in order of their index."""
        if answer is None:
            opened = turn.state
            text = joined(opened.chunks) if isinstance(opened, OpenTurn | QueuedTurn) else ""
            answer = Answer(Message(role=Role.ASSISTANT, content=text), refs=refs)
        await self.commit(turn, answer, status=status, usage=usage)

    # Housekeeping

    def last_report(self, session_id: Scope | str) -> Report | None:
        """The newest report of a session here; an id alone means one of no account and no user."""
        return self._sessions.last_report(as_scope(session_id))
