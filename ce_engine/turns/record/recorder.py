"""Records under a session's lock, and hands what was recorded to the store and to whoever listens (A-15)."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ce_engine.config import RuntimeConfig
from ce_engine.errors import (
    ContextEngineError,
    EncryptionKeyError,
    SessionNotFoundError,
    StoreUnavailableError,
    VersionConflictError,
)
from ce_engine.runtime.journal import WriteGroup
from ce_engine.runtime.recording_gaps import Gap
from ce_engine.schema.call import ModelCall, TurnHandle
from ce_engine.schema.degradation import RECORDING_GAP, Degradation
from ce_engine.schema.events import Event, EventType
from ce_engine.schema.rows import Write
from ce_engine.schema.scope import Scope
from ce_engine.sessions.view import OpenTurn, SessionView
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.turns.call_config import is_nobodys, nobodys, protected
from ce_engine.turns.engine_base import EngineBase
from ce_engine.turns.opt_out import bring_nothing, opts_out, storing_nothing
from ce_engine.turns.record.persistence_boundary import Ingest
from ce_engine.turns.record.tool_runs import Record
from ce_engine.turns.record.write_group import RecordGroup


logger = logging.getLogger("ce_engine")


class RecordMethods(EngineBase):
    """The way of every record, whatever it is of: lock, view, one group of writes, its events."""

    @abstractmethod
    async def _recorded_first(self, turn: TurnHandle | None) -> None:
        """Wait until a turn that went on unprepared is there to be ended."""

    def _records(
        self,
        view: SessionView,
        scope: Scope,
        framework: str,
        config: RuntimeConfig,
        tags: Mapping[str, str] | None = None,
    ) -> RecordGroup:
        if opts := opts_out(config, scope):
            config = storing_nothing(config)
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
            config.redaction,
            *((view.names, view.tags) if redact else ()),
        )
        heard = config.observability.emit_events and self._announcer.is_heard
        ingest.hasher, ingest.ingestor = self.hasher, self.ingestor
        ingest.framework = ingest.name(framework)
        return RecordGroup(view, ingest, heard=heard, handover=config.handover, may_sum_up=not opts)

    def config_of(self, own: RuntimeConfig) -> RuntimeConfig:
        """A configuration for some calls: what it leaves out of redaction, opt-out and `require_user` is the engine's.

        Raises:
            ConfigError: it asks for what only the engine as a whole can do, such as rules of redaction.
        """
        return protected(own, self.config)

    def _protect(self, call: ModelCall) -> None:
        """Give a call the configuration that is its own, and keep from it what is not for it."""
        config = protected(call.config, self.config)
        if call.config is not None:
            call.config = config
        if is_nobodys(config, call.scope):
            call.scope, call.ephemeral = nobodys(call.scope, self.ids), True
        if opts_out(config, call.scope):
            call.config = storing_nothing(config)
            bring_nothing(call)

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
        as_known: bool = False,
        wait: bool = False,
        parts: Iterable[Any] = (),
    ) -> Any:
        is_known = as_known or turn is not None
        work = self._recorded(
            scope,
            record,
            turn,
            framework,
            ephemeral=ephemeral,
            as_known=is_known,
            wait=wait,
            parts=parts,
        )
        with self._journal.phase():
            return await self.loop.share(work)

    async def _recorded(  # noqa: PLR0913 - one parameter a thing that callers differ in
        self,
        scope: Scope,
        record: Record,
        turn: TurnHandle | None,
        framework: str,
        *,
        ephemeral: bool,
        wait: bool,
        as_known: bool = False,
        parts: Iterable[Any] = (),
        config: RuntimeConfig | None = None,
    ) -> Any:
        await self._recorded_first(turn)
        if wait:
            await self._settle(scope)
        opened = turn.state if turn is not None else None
        config, tags = config or self.config, None
        if isinstance(opened, OpenTurn):
            config, tags = opened.config or config, opened.tags
            framework = opened.row.framework
        async with self._locks.hold(scope.key):
            view, _ = await self._sessions.view(scope, ephemeral=ephemeral, as_known=as_known)
            records = self._records(view, scope, framework, config, tags)
            try:
                result, writes = await self._run_off_loop(
                    lambda: (record(records), records.finish()), parts
                )
                group = self._submit(records, writes)
            except BaseException as error:
                self._sessions.drop(scope)  # it may hold half of this record
                logger.warning("a record was not made (%s)", type(error).__name__)
                raise
            self._sessions.grown(view)
        if wait and config.fail == "closed":
            if (unstored := await self._unstored(scope, group)) is not None:
                raise unstored
        elif wait and group is not None:
            await self._journal.wait(group)
        return result

    async def _unstored(self, scope: Scope, group: WriteGroup | None) -> ContextEngineError | None:
        """Wait, within the store's deadline, for a group of records of a session; why it is not stored."""
        if group is None or await self._journal.wait(group) or group.has_landed:
            return None
        view = self._sessions.peek(scope)
        is_gone = view is not None and view.head.is_deleted
        refusal = SessionNotFoundError.code if is_gone else self._journal.refusal(scope)
        # Lost, and the view has it: who asks again must not go on from there.
        if group.future.done():
            self._sessions.drop(scope)
        return _unstored(scope, refusal)

    def post_fault(self, code: str, where: str, framework: str = "") -> None:
        """Tell the bus of a fault that an adapter spared its host, without waiting; nothing is stored.

        Args:
            code: stable, as of an error of ours.
            where: the step that failed, in the adapter's own words.
            framework: the adapter's name.
        """
        self._telemetry.count(
            "faults", {"ce.code": code, "ce.step": where, "ce.framework": framework}
        )
        if self.config.observability.emit_events:
            payload, tags = {"code": code, "where": where}, {"framework": framework}
            now = self.clock.now_iso()
            fault = Event(
                event_type=EventType.ERROR, session_id="", ts=now, tags=tags, payload=payload
            )
            self._announcer.tell(Scope(session_id="faults"), [fault])  # a line of their own

    def _post(
        self,
        scope: Scope,
        record: Record,
        ephemeral: bool,
        framework: str,
        parts: Iterable[Any] = (),
        config: RuntimeConfig | None = None,
    ) -> None:
        config = protected(config, self.config)
        if is_nobodys(config, scope):
            scope, ephemeral = nobodys(scope, self.ids), True
        work = self._recorded(
            scope,
            record,
            None,
            framework,
            ephemeral=ephemeral,
            wait=False,
            parts=parts,
            config=config,
        )
        with self._journal.phase():
            self._posted.add(scope.key, self.loop.submit(work))

    async def _settle(self, scope: Scope) -> None:
        await self._posted.settle(scope.key, self.config.store.deadline_s)

    def _submit(self, records: RecordGroup, writes: Sequence[Write]) -> WriteGroup | None:
        """Hand over what `records.finish` gave."""
        if not writes:
            return None
        view, ingest = records.view, records.ingest
        fields = sum(redaction.fields_redacted for redaction in ingest.redactions.values())
        self._telemetry.redacted(fields, ingest.framework)
        view.created = True
        first = self._originals.of(records)
        group = self._journal.submit(view.scope, writes, view.landed, first)
        self._summarize_on(records)
        if records.heard:
            payload = {"writes": len(writes)}
            persisted = records.ingest.event(EventType.PERSISTED, payload=payload)
            self._announcer.tell(view.scope, [*records.events, persisted], group.heard)
        return group

    def _name_gap(self, gap: Gap) -> None:
        """Name what could not be recorded: in the session's log, its next report, and on the bus."""
        view = self._sessions.peek(gap.scope) or self._sessions.fresh(gap.scope, ephemeral=False)
        records = self._records(view, gap.scope, "", self.config)
        loss = {"groups": gap.groups, "messages": gap.messages, "from": gap.since, "to": gap.until}
        if gap.groups:
            payload = {**Degradation(RECORDING_GAP).payload, **loss}
            records.events.append(records.ingest.event(EventType.ERROR, payload=payload))
            records.codes.append(RECORDING_GAP)
        if gap.refused == VersionConflictError.code:
            records.degrade(Degradation(gap.refused))
        self._submit(records, records.finish())


def _unstored(scope: Scope, refusal: str) -> ContextEngineError:
    """Why a record is not there, for `fail="closed"`; `refusal` is the code with which the store refused it."""
    if refusal == VersionConflictError.code:
        return VersionConflictError(
            f"the store refused the record twice: somebody else wrote to session "
            f"{scope.session_id!r} meanwhile. Prepare the turn anew."
        )
    if refusal == SessionNotFoundError.code:
        return SessionNotFoundError(
            f"session {scope.session_id!r} was deleted while a call of it was under way: nothing of the "
            "call is recorded."
        )
    kind = EncryptionKeyError if refusal == EncryptionKeyError.code else StoreUnavailableError
    return kind('the record is not stored yet, and fail="closed" is set. See: ce doctor')
