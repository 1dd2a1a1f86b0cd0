"""Hands a run that failed over to a person, or to a host that resumes it (B-06)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ce_engine.audit.replay import find_turn
from ce_engine.audit.trace import SETTLE_S
from ce_engine.errors import SessionNotFoundError
from ce_engine.schema.document import Message, SessionDocument, ToolCall
from ce_engine.schema.enums import ToolCallStatus, TurnStatus
from ce_engine.schema.events import Event, EventType
from ce_engine.schema.handover import Checkpoint, Handover, HandoverStep, StepStatus
from ce_engine.schema.rows import EventChain, TurnRow, archive_of
from ce_engine.schema.scope import Scope, as_scope, check_project
from ce_engine.turns.engine_base import EngineBase


HITL = "hitl"
_TURNS: dict[TurnStatus, StepStatus] = {
    TurnStatus.OPEN: "open",
    TurnStatus.COMMITTED: "done",
}


class HandoverMethods(EngineBase):
    """The part of the engine that tells how far a run came."""

    async def handover(self, session_id: Scope | str, turn: int | str | None = None) -> Handover:
        """A run's steps since its task, what failed, and how its input is made again (B-06).

        A step that is `done` must not be run again: its result is the evidence it names. One that is
        `open` may have had its side effects or not: look before it is repeated.

        Args:
            session_id: whose; an id alone is a session of no account and no user.
            turn: its number, from 1, its id or the start of that; if not given, the newest that a `hitl`
                event names, else the newest that did not end well, else the newest.

        Raises:
            SessionNotFoundError: there is no such session of this user.
            TurnNotFoundError: it has no such turn.
            ScopeViolationError: the session belongs to another project.
        """
        return await self.loop.share(self._handover(as_scope(session_id), turn))

    async def _handover(self, scope: Scope, choice: int | str | None) -> Handover:
        await self._land_all(SETTLE_S)
        chain = await self.store.chain(scope)
        if chain is None or chain.head.is_deleted:
            raise SessionNotFoundError(
                f"there is no session {scope.session_id!r} of this user; see: ce sessions"
            )
        check_project(scope, chain.head.project_id)
        turns = [row for row in await self.store.list_turns(scope) if row.purpose == "chat"]
        document = await self.store.get_session(scope)
        everything = await self.store.list_turns(scope)
        at = find_turn(everything, choice, scope.session_id)
        if choice is None:
            row = _newest(turns, chain.events) or everything[at]
            at = everything.index(row)
        return _Run(everything, at, document, chain).handover(scope)


def _newest(turns: Sequence[TurnRow], events: Sequence[Event]) -> TurnRow | None:
    """The turn that a person is asked for, else one that did not end well, else the newest."""
    turn_ids = {event.turn_id for event in events if event.kind == HITL}
    requests = {event.request_id for event in events if event.kind == HITL and event.request_id}
    asked_for = [row for row in turns if row.turn_id in turn_ids or row.request_id in requests]
    failed = [row for row in turns if row.status is not TurnStatus.COMMITTED]
    newest = [*turns[-1:], *failed[-1:], *asked_for[-1:]]
    return newest[-1] if newest else None


class _Run:
    """The turns of one request in one lane, up to the one that is handed over, with their tool runs."""

    def __init__(
        self,
        turns: Sequence[TurnRow],
        at: int,
        document: SessionDocument | None,
        chain: EventChain,
    ) -> None:
        self.at, self.row, self.chain = at, turns[at], chain
        self.messages: dict[str | None, Message] = {}
        self.calls: list[ToolCall] = []
        if document is not None:
            self.messages = {m.message_id: m for m in document.session.messages}
            self.calls = document.session.tool_state.tool_calls
        row = self.row
        same = (
            other
            for other in turns[: at + 1]
            if row.request_id and (other.request_id, other.lane) == (row.request_id, row.lane)
        )
        self.turns = list(same) or [row]

    def handover(self, scope: Scope) -> Handover:
        row, head = self.row, self.chain.head
        ids = {turn.turn_id for turn in self.turns}
        events = [e for e in self.chain.events if e.turn_id in ids or self._asks(e)]
        steps = [*self._model_calls(events), *self._tool_runs()]
        question = self.messages.get(self.turns[0].tip_message_id)
        report = row.report
        return Handover(
            session_id=scope.session_id,
            user_id=scope.user_id,
            account_id=scope.account_id,
            turn=self.at + 1,
            turn_id=row.turn_id,
            request_id=row.request_id,
            framework=row.framework,
            status=str(row.status),
            triggers=[dict(e.payload) for e in events if e.kind == HITL],
            asked=question.content if question is not None else "",
            steps=sorted(steps, key=self._place),
            input_hash=str(archive_of(report).get("hash", "")),
            input_tokens=int(report.get("tokens_after", 0)),
            degradations=list(report.get("degradations", ())),
            checkpoint=Checkpoint(
                version=head.version, events=head.last_event_seq, head=head.chain_head
            ),
        )

    def _place(self, step: HandoverStep) -> tuple[str, int, str]:
        """Tool runs that an answer asks for come after its call, in its order."""
        asked_by, _, place = step.id.rpartition(":")
        for turn in self.turns:
            if step.kind == "tool_run" and asked_by and asked_by == turn.answer_message_id:
                return turn.opened_at, 1, place.zfill(4)
        return step.at, 0, ""

    def _asks(self, event: Event) -> bool:
        return bool(self.row.request_id) and event.request_id == self.row.request_id

    def _model_calls(self, events: Sequence[Event]) -> Iterator[HandoverStep]:
        for turn in self.turns:
            codes = [*turn.report.get("errors", ())]
            codes += [
                str(event.payload.get("code", ""))
                for event in events
                if event.event_type == EventType.ERROR and event.turn_id == turn.turn_id
            ]
            yield HandoverStep(
                kind="model_call",
                id=turn.turn_id,
                name=turn.purpose,
                status=_TURNS.get(turn.status, "failed"),
                attempts=turn.attempt,
                at=turn.opened_at,
                errors=list(dict.fromkeys(filter(None, codes))),
            )

    def _tool_runs(self) -> Iterator[HandoverStep]:
        """Runs that the turns' answers ask for, and runs of the same request beside them."""
        answers = {turn.answer_message_id for turn in self.turns} - {None}
        run_ids, ended = set[str | None](), set[str | None]()
        for event in self.chain.events:
            if event.event_type == EventType.TOOL_CALL_COMPLETED:
                ended.add(event.tool_call_id)
            if event.event_type in _RUNS and self._asks(event):
                run_ids.add(event.tool_call_id)
        recorded_ids = set[str]()
        for call in self.calls:
            asked_by = call.tool_call_id.rpartition(":")[0]
            if call.tool_call_id in run_ids or asked_by in answers:
                recorded_ids.add(call.tool_call_id)
                yield self._tool_run(call, is_ended=call.tool_call_id in ended)
        yield from self._not_begun(answers, recorded_ids)

    def _tool_run(self, call: ToolCall, *, is_ended: bool) -> HandoverStep:
        good = call.status is ToolCallStatus.SUCCESS
        status: StepStatus = "open" if not is_ended else "done" if good else "failed"
        error = [call.error or str(call.status)] if status == "failed" else []
        return HandoverStep(
            kind="tool_run",
            id=call.tool_call_id,
            name=call.tool,
            status=status,
            host_call_id=self._host_id(call.tool_call_id),
            at=call.called_at,
            errors=error,
            args=call.args_digest,
            evidence_ids=call.result_evidence_ids,
        )

    def _not_begun(
        self, answers: set[str | None], recorded_ids: set[str]
    ) -> Iterator[HandoverStep]:
        """Tools that an answer asks for and nobody recorded a run of."""
        for turn in self.turns:
            message = self.messages.get(turn.answer_message_id)
            if message is None or turn.answer_message_id not in answers:
                continue
            for place, tool_call in enumerate(message.tool_calls or ()):
                name = f"{message.message_id}:{place}"
                if name not in recorded_ids:
                    yield HandoverStep(
                        kind="tool_run",
                        id=name,
                        name=tool_call.name,
                        status="open",
                        host_call_id=tool_call.id,
                        at=message.at or turn.closed_at,
                        args=tool_call.args,
                    )

    def _host_id(self, tool_call_id: str) -> str | None:
        asked_by, _, place = tool_call_id.rpartition(":")
        message = self.messages.get(asked_by)
        tool_calls = (message.tool_calls or []) if message is not None and place.isdecimal() else []
        return tool_calls[int(place)].id if tool_calls and int(place) < len(tool_calls) else None


_RUNS = (EventType.TOOL_CALLED, EventType.TOOL_CALL_COMPLETED)
