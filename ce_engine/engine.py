"""The engine: fetch, prepare, let the host invoke, upload; I/O and order, no policy (A-13, A-15)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from ce_engine.answers import commit_turn, fail_turn, joined
from ce_engine.by_hand import ByHand
from ce_engine.config import RuntimeConfig
from ce_engine.counting import Counter
from ce_engine.deletion import Deletions
from ce_engine.errors import (
    BudgetExceededError,
    ContextEngineError,
    StoreUnavailableError,
)
from ce_engine.facts import FactRecorder, Record
from ce_engine.inspecting import Authorize, Inspecting, only_the_owner
from ce_engine.observe.bus import InMemoryEventBus
from ce_engine.ports import Clock, IdGenerator, Pruner, Redactor, Store, TokenEstimator
from ce_engine.preparation import Preparation
from ce_engine.prepare.prune import GreedyPriorityPruner
from ce_engine.recording import Records
from ce_engine.replaying import Replaying
from ce_engine.runtime.fork import renew_after_fork
from ce_engine.runtime.journal import Group, Journal
from ce_engine.runtime.locks import KeyedLocks
from ce_engine.runtime.loop import LoopThread
from ce_engine.runtime.posted import Posted
from ce_engine.schema.call import Answer, ModelCall, Prepared, TurnHandle, Usage
from ce_engine.schema.document import Message, Ref
from ce_engine.schema.enums import Role, TurnStatus
from ce_engine.schema.events import Event, EventType
from ce_engine.schema.ids import SystemClock, UuidV4Generator
from ce_engine.schema.report import Report
from ce_engine.schema.rows import Write
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.sessions import Sessions
from ce_engine.stores.waiting import settled
from ce_engine.tokens import default_estimator
from ce_engine.tracing import Tracing
from ce_engine.upload.ingest import Ingest
from ce_engine.upload.redact import PatternRedactor
from ce_engine.view import OpenTurn, SessionView


CHECK_S = 15.0
logger = logging.getLogger("ce_engine")


class Engine(ByHand, FactRecorder, Tracing, Replaying, Inspecting, Deletions):
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
        event_bus: InMemoryEventBus | None = None,
        clock: Clock | None = None,
        id_generator: IdGenerator | None = None,
        authorize: Authorize | None = None,
    ) -> None:
        self.store = store
        self.config = config or RuntimeConfig()
        self.estimator = token_estimator or default_estimator()
        self.redactor: Redactor = redactor or _redactor(self.config)
        self.pruner = pruner or GreedyPriorityPruner()
        self.bus = event_bus or InMemoryEventBus()
        self.clock = clock or SystemClock()
        self.ids = id_generator or UuidV4Generator()
        self.authorize = authorize or only_the_owner
        self.loop = LoopThread()
        self._events = LoopThread("ce-events")  # a slow handler holds up nobody's records
        self._journal = Journal(store, self.loop, self.config.store, self._gap)
        self._sessions = Sessions(store, self._journal, self.redactor, self.config, self.clock)
        self._locks = KeyedLocks()
        self._posted = Posted()
        renew_after_fork(self.bus.renew)

    # Prepare

    async def prepare(self, call: ModelCall) -> Prepared:
        """Prepare a model call; what is new of it is recorded while the model works.

        Raises:
            BudgetExceededError: with `fail="closed"`, what may never be left out is over the budget.
        """
        if self.loop.is_current():
            return await self._prepare(call)
        future = self.loop.submit(self._prepare(call))
        try:
            await settled(future)
        except BaseException:  # the caller is cancelled: nobody will commit this turn
            future.add_done_callback(self._abandon)
            raise
        return future.result()

    async def _prepare(self, call: ModelCall) -> Prepared:
        config = call.config or self.config
        await self._settle(call.scope)
        async with self._locks.hold(call.scope.key):
            view, degraded = await self._sessions.view(call.scope, ephemeral=call.ephemeral)
            records = self._records(view, call.scope, call.framework, config, call.tags)
            if records.heard:
                loaded = {"messages": len(view.log), "version": view.head.version}
                records.events.append(
                    records.ingest.event(EventType.SESSION_LOADED, payload=loaded)
                )
            for code in degraded:
                records.events.append(
                    records.ingest.event(EventType.DEGRADED, payload={"code": code})
                )
            try:
                given = await self._collected(call)
                prepared = Preparation(
                    call, config, records, self.estimator, self.pruner, degraded, given
                ).run()
                self._submit(records)
            except BaseException:
                self._sessions.drop(call.scope)  # it may hold half of this call
                raise
            self._sessions.grown(view)
        self._sessions.remember(call.scope, prepared.report)
        if config.fail == "closed":
            await self._refuse(prepared)
        return prepared

    async def _refuse(self, prepared: Prepared) -> None:
        """With `fail="closed"`, end a turn that is over its budget or cannot be recorded."""
        report = prepared.report
        if report.over_budget:
            error: ContextEngineError = BudgetExceededError(
                f"the input needs {report.token_used} tokens, the budget has "
                f"{report.token_budget}, and nothing more may be left out. Raise "
                "budget.max_input_tokens, or shorten the system prompt, the task or the tools."
            )
        elif report.degradations:
            error = StoreUnavailableError(
                f"the call cannot be recorded ({', '.join(report.degradations)}), and "
                'fail="closed" is set. See that the store works: ce doctor'
            )
        else:
            return
        with suppress(StoreUnavailableError):
            await self.fail(prepared.turn, error.code)
        raise error

    def _abandon(self, future: Future[Prepared]) -> None:
        if not future.cancelled() and future.exception() is None:
            turn = future.result().turn
            self.loop.submit(self.fail(turn, "cancelled", status=TurnStatus.ABANDONED))

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

        def record(records: Records) -> None:
            if _is_open(records, turn):
                counter = self._counter(answer.model)
                commit_turn(records, turn.turn_id, answer, status, usage, counter)

        await self._record(turn.scope, record, turn=turn, wait=True)

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

        def record(records: Records) -> None:
            if _is_open(records, turn):
                counter = self._counter("")
                fail_turn(records, turn.turn_id, error_code, status, partial, usage, counter)

        await self._record(turn.scope, record, turn=turn, wait=True)

    def chunk(self, turn: TurnHandle, index: int, text: str) -> None:
        """Keep a piece of a streamed answer; the bus hears its index and length, never the text (A-14)."""
        opened = turn.state
        if not isinstance(opened, OpenTurn):
            return
        opened.chunks[index] = text
        view = self._sessions.known(turn.scope)
        if view is not None and not self.bus.is_idle:
            event = self._records(view, turn.scope, opened.row.framework, self.config).ingest.event(
                EventType.ASSISTANT_CHUNK_RECEIVED,
                payload={"index": index, "length": len(text)},
                turn_id=turn.turn_id,
                request_id=turn.request_id,
            )
            self._events.submit(self.bus.emit(event))

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
            text = joined(opened.chunks) if isinstance(opened, OpenTurn) else ""
            answer = Answer(Message(role=Role.ASSISTANT, content=text), refs=refs)
        await self.commit(turn, answer, status=status, usage=usage)

    # Housekeeping

    def last_report(self, session: Scope | str) -> Report | None:
        """The newest report of a session here; an id alone means one of no account and no user."""
        return self._sessions.last_report(as_scope(session))

    async def check(self) -> None:
        """Open the store and prove that it works; it may take its time, once (`CHECK_S`).

        Raises:
            StoreUnavailableError: it does not; the message names the cure.
        """
        try:
            await asyncio.wait_for(self.store.check(), CHECK_S)
        except TimeoutError:
            raise StoreUnavailableError(
                f"the store {self.store.url} did not answer within {CHECK_S:.0f} s; see that it runs"
            ) from None

    @property
    def has_unstored(self) -> bool:
        """Whether something handed over is not stored yet."""
        return self._posted.pending or self._journal.waiting > 0

    async def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything handed over is stored; false if it is not in time."""
        done = await self._posted.settle_all(timeout_s)
        return await self._journal.flush(timeout_s) and done

    async def close(self) -> None:
        """Store what was accepted, and let go of threads and files."""
        await self.flush()
        await self.store.close()
        self._sessions.clear()
        for loop in (self._events, self.loop):
            if not loop.is_current():
                loop.close()

    # Inside

    def _records(
        self,
        view: SessionView,
        scope: Scope,
        framework: str,
        config: RuntimeConfig,
        tags: Mapping[str, str] | None = None,
    ) -> Records:
        tags = {**config.observability.tags, **(tags or {})}
        redact = config.redaction.enabled
        ingest = Ingest(
            scope,
            view.fingerprinter,
            view.redactor if redact else None,
            self.redactor.version if redact else "off",
            self.clock,
            self.ids,
            {**tags, "framework": framework} if framework else tags,
            framework,
            *((view.names, view.tags) if redact else ()),
        )
        heard = config.observability.emit_events and not self.bus.is_idle
        return Records(view, ingest, heard=heard)

    def _counter(self, model: str) -> Counter:
        return Counter(self.estimator, model or self.config.model_hint)

    async def _record(
        self,
        scope: Scope,
        record: Record,
        *,
        turn: TurnHandle | None = None,
        framework: str = "",
        ephemeral: bool = False,
        wait: bool = False,
    ) -> Any:
        work = self._recorded(scope, record, turn, framework, ephemeral=ephemeral, wait=wait)
        return await self.loop.share(work)

    async def _recorded(
        self,
        scope: Scope,
        record: Record,
        turn: TurnHandle | None,
        framework: str,
        *,
        ephemeral: bool,
        wait: bool,
    ) -> Any:
        if wait:
            await self._settle(scope)
        opened = turn.state if turn is not None else None
        config, tags = self.config, None
        if isinstance(opened, OpenTurn):
            config, tags = opened.config or config, opened.tags
            framework = opened.row.framework
        async with self._locks.hold(scope.key):
            view, _ = await self._sessions.view(
                scope, ephemeral=ephemeral, as_known=turn is not None
            )
            records = self._records(view, scope, framework, config, tags)
            try:
                result = record(records)
                group = self._submit(records)
            except BaseException as error:
                self._sessions.drop(scope)  # it may hold half of this record
                logger.warning("a record was not made (%s)", type(error).__name__)
                raise
            self._sessions.grown(view)
        if wait and group is not None:
            landed = await self._journal.wait(group)
            if not landed and config.fail == "closed":
                raise StoreUnavailableError(
                    'the record is not stored yet, and fail="closed" is set. See: ce doctor'
                )
        return result

    def _post(self, scope: Scope, record: Record, ephemeral: bool, framework: str) -> None:
        work = self._recorded(scope, record, None, framework, ephemeral=ephemeral, wait=False)
        self._posted.add(scope.key, self.loop.submit(work))

    async def _settle(self, scope: Scope) -> None:
        await self._posted.settle(scope.key, self.config.store.deadline_s * 2)

    def _submit(self, records: Records) -> Group | None:
        writes = records.finish()
        if not writes:
            return None
        view = records.view
        view.created = True
        group = self._journal.submit(view.scope, writes, view.landed)
        if records.heard:
            payload = {"writes": len(writes)}
            persisted = records.ingest.event(EventType.PERSISTED, payload=payload)
            events = [*records.events, persisted]
            self._events.submit(self._announce(group, events))
        return group

    def _gap(self, scope: Scope, groups: int) -> Sequence[Write]:
        """What names a gap in the recording: groups of records that no buffer could hold."""
        view = self._sessions.known(scope)
        if view is None:
            return []
        records = self._records(view, scope, "", self.config)
        payload = {"code": "CONTEXT_RECORDING_GAP", "groups": groups}
        records.events.append(records.ingest.event(EventType.ERROR, payload=payload))
        return records.finish()

    async def _announce(self, group: Group, events: Sequence[Event]) -> None:
        await settled(group.heard, self.config.store.deadline_s)
        landed = group.future.done() and group.future.result() is not None
        await self.bus.emit_all(events if landed else events[:-1])


def _redactor(config: RuntimeConfig) -> PatternRedactor:
    rules = config.redaction.rules
    return PatternRedactor(rules.patterns, rules.dictionaries) if rules else PatternRedactor()


def _is_open(records: Records, turn: TurnHandle) -> bool:
    """Whether this very attempt is open: a later attempt of the same turn has another handle."""
    opened = records.view.turns.get(turn.turn_id)
    return opened is not None and opened.handle is turn
