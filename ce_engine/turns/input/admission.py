"""How many assemblies a session may have at once, and what becomes of a call that finds no room (D-12)."""

from __future__ import annotations

import logging
from abc import abstractmethod
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ce_engine.errors import BackpressureError, ContextEngineError
from ce_engine.runtime.journal import WriteGroup
from ce_engine.runtime.waiting import settled
from ce_engine.schema.call import Keep, ModelCall, Prepared, TurnHandle
from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.report import Report
from ce_engine.sessions.view import OpenTurn
from ce_engine.turns.engine_base import EngineBase
from ce_engine.turns.report.report import refusal


logger = logging.getLogger("ce_engine")


@dataclass(slots=True)
class QueuedTurn:
    """The state of a turn whose call went on unprepared, until it is prepared for the record."""

    recorded: Future[None] = field(default_factory=Future)
    chunks: dict[int, str] = field(default_factory=dict)


class AdmissionMethods(EngineBase):
    """Lets calls in, a few of a session at once. All of it runs on the engine's own loop."""

    @abstractmethod
    async def _prepare(
        self, call: ModelCall, queued: TurnHandle | None = None
    ) -> tuple[Prepared, WriteGroup | None]:
        """Prepare a call, or record one that went on unprepared as the turn `queued`; and what of it is on its way."""

    async def _admitted(self, call: ModelCall) -> Prepared:
        """Prepare a call when there is room for it; without any in time, let it go on as it is."""
        config = call.config or self.config
        most, wait_s = config.collect.concurrent, config.store.deadline_s
        try:
            with self._journal.phase():
                if call.purpose == "helper":  # nothing is collected for it
                    prepared, group = await self._prepare(call)
                else:
                    async with self._gate.enter(call.scope.key, call.lane, most, wait_s):
                        prepared, group = await self._prepare(call)
                if config.fail == "closed":
                    await self._refuse(prepared, group)
        except BackpressureError:
            if config.fail == "closed" or call.by_hand:  # its list is not the whole conversation
                raise
            return self._passed(call)
        return prepared

    def _passed(self, call: ModelCall) -> Prepared:
        """The host's own list, and a turn that is opened behind the queue: nothing of it is lost."""
        turn = TurnHandle(
            self.ids.generate(),
            call.scope,
            call.request_id,
            call.lane,
            state=QueuedTurn(),
        )
        # Not under the session's key: the session's next phases do not wait for it, its own do.
        self._posted.add(turn.turn_id, self.loop.submit(self._record_passed(call, turn)))
        count = len(call.messages)
        report = Report(
            turn_id=turn.turn_id,
            degradations=[BackpressureError.code],
            warnings=[BackpressureError.code],
            messages_in=count,
            messages_sent=count,
            kept=count,
            framework=call.framework,
            lane=turn.lane,
        )
        return Prepared(
            turn, list(map(Keep, range(count))), unchanged=True, report=report, call=call
        )

    async def _record_passed(self, call: ModelCall, turn: TurnHandle) -> None:
        """Prepare without changing anything, which records all that the call brought."""
        queued = turn.state
        assert isinstance(queued, QueuedTurn)
        as_sent = {"enable_share_context": False, "tool_results": "whole"}
        config = (call.config or self.config).model_copy(update=as_sent)
        try:
            with self._journal.phase():
                await self._prepare(replace(call, config=config, restore=False), turn)
        except Exception as error:  # noqa: BLE001 - nobody awaits it, and the host's call went on
            turn.status = TurnStatus.ABANDONED
            logger.warning("a call that found no room was not recorded (%s)", type(error).__name__)
        finally:
            queued.recorded.set_result(None)

    def _adopt(self, queued: TurnHandle, prepared: Prepared) -> None:
        """Make the handle that the host has that of the turn that was opened for it."""
        opened, waiting = prepared.turn.state, queued.state
        assert isinstance(opened, OpenTurn)
        assert isinstance(waiting, QueuedTurn)
        opened.handle, opened.chunks = queued, waiting.chunks
        queued.turn_id, queued.attempt = opened.row.turn_id, opened.row.attempt
        queued.request_id, queued.lane = prepared.turn.request_id, prepared.turn.lane
        queued.state = opened

    async def _recorded_first(self, turn: TurnHandle | None) -> None:
        """Wait until a turn that went on unprepared is there to be ended."""
        if turn is not None and isinstance(turn.state, QueuedTurn):
            await settled(turn.state.recorded)

    async def _refuse(self, prepared: Prepared, group: WriteGroup | None) -> None:
        """With `fail="closed"`, end a turn that is over its budget, or of which nothing is stored yet.

        What a call brings is stored before the call goes out: a store that can be read may take nothing.
        """
        error = refusal(prepared.report) or await self._unstored(prepared.turn.scope, group)
        if error is None:
            return
        with suppress(ContextEngineError):
            await self.fail(prepared.turn, error.code)
        raise error

    def _abandon(self, future: Future[Prepared]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._give_up(future.result().turn)

    def _give_up(self, turn: TurnHandle) -> None:
        """End a turn of which its caller does not know: it was cancelled."""
        self.loop.submit(self.fail(turn, "cancelled", status=TurnStatus.ABANDONED))
