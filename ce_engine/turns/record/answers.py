"""What the model answered becomes records, and its turn is closed (A-03)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ce_engine.ports.evidence import EvidenceDraft
from ce_engine.prepare.reconcile.reconcile import place_answer
from ce_engine.schema.call import Answer, HostMessage, TurnHandle, Usage
from ce_engine.schema.degradation import Degradation
from ce_engine.schema.document import EvidenceLinks, EvidenceSource, Message, ModelUsage
from ce_engine.schema.enums import (
    EvidenceType,
    ModelUsageStage,
    ModelUsageStatus,
    Origin,
    Role,
    SourceKind,
    TurnStatus,
)
from ce_engine.schema.events import EventType
from ce_engine.schema.report import error_parts
from ce_engine.schema.rows import AppendModelUsage, MessageRow, TurnRow
from ce_engine.sessions.view import OpenTurn, SessionView
from ce_engine.text.redaction.pieces import refs
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.turns.input.message_keys import from_row as incoming_of
from ce_engine.turns.record.attachments import attachment_records
from ce_engine.turns.record.evidence_rows import evidence_row
from ce_engine.turns.record.persistence_boundary import Ingest
from ce_engine.turns.record.write_group import RecordGroup, put_turn


MAX_REFS = 50
"""Refs of one answer: the newest evidence of its request."""


def is_open(view: SessionView, turn: TurnHandle) -> bool:
    """Whether this very attempt is open: a later attempt of the same turn has another handle."""
    opened = view.turns.get(turn.turn_id)
    return opened is not None and opened.handle is turn


def commit_turn(
    records: RecordGroup,
    turn_id: str,
    answer: Answer,
    status: TurnStatus,
    usage: Usage | None,
    counter: Counter,
) -> None:
    """Record the answer of an open turn and close it; a turn that is closed stays as it is."""
    turn = records.view.turns.get(turn_id)
    if turn is not None:
        _learn(records.view, turn, usage, counter)
        counted = (counter.name, counter.message(answer.message))
        record_answer(records, turn, answer, usage, status, counted)
        close_turn(records, turn, status)


def fail_turn(
    records: RecordGroup,
    turn_id: str,
    error_code: str,
    status: TurnStatus,
    partial: str,
    usage: Usage | None,
    counter: Counter,
) -> None:
    """Close an open turn that has no whole answer, and keep what had come of it."""
    turn = records.view.turns.get(turn_id)
    if turn is None:
        return
    text = partial or joined(turn.chunks)
    if text:
        _learn(records.view, turn, usage, counter)
        answer = Answer(Message(role=Role.ASSISTANT, content=text))
        counted = (counter.name, counter.message(answer.message))
        record_answer(records, turn, answer, usage, status, counted)
    close_turn(records, turn, status, error_code)


def _learn(view: SessionView, turn: OpenTurn, usage: Usage | None, counter: Counter) -> None:
    """Take note of how the provider counted; where that was more, the turn says so for other processes."""
    if usage is None or not usage.prompt_tokens or usage.estimated or usage.cached:
        return
    row, calibration = turn.row, view.lane(turn.row.lane).calibration
    calibration.observe(turn.report.token_used, usage.prompt_tokens)
    if row.report and calibration.factor > 1.0 and not counter.exact:
        extra = {**row.report.get("extra", {}), "ratios": calibration.ratios}
        row.report = {**row.report, "extra": extra}


def joined(chunks: Mapping[int, str]) -> str:
    """The chunks of a streamed answer in order of their index."""
    return "".join(chunks[index] for index in sorted(chunks))


def record_answer(
    records: RecordGroup,
    turn: OpenTurn,
    answer: Answer,
    usage: Usage | None,
    status: TurnStatus,
    counted: tuple[str, int],
) -> None:
    """Record what the model said: message, usage and `llm_output` evidence."""
    ingest, row = records.ingest, turn.row
    used = _model_usage(ingest, answer, usage, turn, status) if usage is not None else None
    if used is not None:
        row.model_usage_id = used.model_usage_id
        records.writes.append(AppendModelUsage([used], row.turn_id))
    message = answer.message
    if (message.content or message.tool_calls or answer.attachments) and row.purpose == "chat":
        _record_answer_message(records, turn, answer, status, used, counted)
    elif message.content:
        _record_output(records, turn, answer, used, None, status is not TurnStatus.COMMITTED)


def _record_answer_message(
    records: RecordGroup,
    turn: OpenTurn,
    answer: Answer,
    status: TurnStatus,
    used: ModelUsage | None,
    counted: tuple[str, int],
) -> None:
    view, row = records.view, turn.row
    reply = _answer_row(records, turn, answer, counted, status)
    if status is not TurnStatus.COMMITTED:
        reply.message.status = str(status)
    agent = records.ingest.name(turn.handle.scope.agent_id)
    fresh = incoming_of(reply, reply.speaker)
    place = place_answer(view.log, turn.question, fresh, agent=agent, since=turn.since)
    if place.n is not None and place.n not in view.answers:
        # The host's next list brought it before it was committed.
        records.ingest.untold(reply.message.message_id)
        view.answers.add(place.n)
        row.answer_message_id = view.log[place.n].message_id
        _record_output(records, turn, answer, used, row.answer_message_id)
        return
    if (n := _repeated(view, turn, reply)) is not None:
        records.ingest.untold(reply.message.message_id)
        row.answer_message_id = view.log[n].message_id
        return
    elder = place.variant_of if place.n is None else place.n
    if elder is not None:
        reply.message.variant_of = view.log[elder].message_id
    row.answer_message_id = reply.message.message_id
    evidence_id = _record_output(records, turn, answer, used, row.answer_message_id)
    memory = view.requests.get(row.request_id)
    rests_on = [*turn.report.injected_evidence_ids, *(memory.evidence_ids if memory else ())]
    default_refs = refs([item for item in rests_on if item != evidence_id][-MAX_REFS:])
    cited_refs = records.ingest.refs(answer.refs, cited=True)
    reply.message.refs = default_refs if answer.refs is None else cited_refs
    view.answers.add(records.add_message(reply))
    if turn.chunks:
        _tell_finalized(records, turn, status)


def _repeated(view: SessionView, turn: OpenTurn, answer: MessageRow) -> int | None:
    """The same answer, committed before this turn began (B-07).

    It is of the same request, or has the same id; one that has none is known by the id of its question.
    """
    if turn.question is None:
        return None
    earlier_answers = [n for n in view.log.children(turn.question) if n < turn.since]
    name = answer.host_id or (_question_id(view, turn.question) if earlier_answers else None)
    for n in earlier_answers:
        row = view.rows[n]
        is_named = name is not None and row.host_id == answer.host_id
        again = is_named or row.request_id == answer.request_id
        if again and (row.key, row.origin) == (answer.key, answer.origin):
            return n
    return None


def _question_id(view: SessionView, n: int) -> bytes | None:
    """The id that its host gave to the question of an entry, which may be a step of its answer."""
    while view.rows[n].origin != Origin.TASK and (parent := view.log[n].parent) is not None:
        n = parent
    return view.rows[n].host_id


def _answer_row(
    records: RecordGroup,
    turn: OpenTurn,
    answer: Answer,
    counted: tuple[str, int],
    status: TurnStatus,
) -> MessageRow:
    view, message = records.view, answer.message
    origin = Origin.TOOL_CALL if message.tool_calls else Origin.ANSWER
    answer_row = records.ingest.message_row(
        HostMessage(message, origin, host_id=answer.host_id),
        message_id=records.ingest.ids.generate(),
        keys=view.fingerprinter.message(message),
        speaker=message.author.id if message.author else turn.handle.scope.agent_id or None,
        tokens=counted,
        broken_off=status is not TurnStatus.COMMITTED,
    )
    answer_row.message.attachments = attachment_records(answer.attachments, records.ingest)
    answer_row.lane_key, answer_row.turn_id = turn.row.lane, turn.row.turn_id
    answer_row.request_id = turn.row.request_id
    if turn.question is not None:
        answer_row.message.parent_id = view.log[turn.question].message_id
    return answer_row


def _tell_finalized(records: RecordGroup, turn: OpenTurn, status: TurnStatus) -> None:
    row = turn.row
    payload = {
        "message_id": row.answer_message_id,
        "chunks": len(turn.chunks),
        "status": str(status),
    }
    records.events.append(
        records.ingest.event(
            EventType.ASSISTANT_MESSAGE_FINALIZED,
            payload=payload,
            turn_id=row.turn_id,
            request_id=row.request_id,
        )
    )


def _record_output(
    records: RecordGroup,
    turn: OpenTurn,
    answer: Answer,
    used: ModelUsage | None,
    message_id: str | None,
    broken_off: bool = False,
) -> str | None:
    if not answer.message.content:
        return None
    source = EvidenceSource(kind=SourceKind.LLM, name=answer.model or answer.provider)
    row = evidence_row(
        records.ingest,
        EvidenceDraft(answer.message.content, source, EvidenceType.LLM_OUTPUT),
        links=EvidenceLinks(model_usage_id=used.model_usage_id if used else None),
        clean={
            "turn_id": turn.row.turn_id,
            "finish_reason": records.ingest.name(answer.finish_reason),
        },
        message_id=message_id,
        broken_off=broken_off,
    )
    row.dedup_key = records.view.fingerprinter.mac(
        "evidence", f"turn\x00{turn.row.turn_id}\x00{turn.row.attempt}"
    )
    row.lane_key = turn.row.lane
    count_before = len(records.view.request(turn.row.request_id).evidence_ids)
    evidence_id = records.add_evidence(row, turn.row.request_id, turn.row.turn_id)
    # An answer does not rest on itself, nor on the steps before it.
    del records.view.request(turn.row.request_id).evidence_ids[count_before:]
    return evidence_id


def _model_usage(
    ingest: Ingest, answer: Answer, usage: Usage, turn: OpenTurn, status: TurnStatus
) -> ModelUsage:
    params: dict[str, Any] = (ingest.data(dict(usage.details)) or {}) if usage.details else {}
    if usage.estimated:
        params["estimated"] = True
    if usage.cached:
        params["cached"] = True
    if turn.sub_task_id:
        params["sub_task_id"] = ingest.id(turn.sub_task_id)
    stage = ModelUsageStage.TOOL_CALL if answer.message.tool_calls else ModelUsageStage.ANSWER
    if turn.row.purpose != "chat":
        stage = ModelUsageStage.OTHER
    return ModelUsage(
        model_usage_id=ingest.ids.generate(),
        provider=ingest.name(answer.provider),
        model=ingest.name(answer.model),
        stage=stage,
        params=params,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens or usage.prompt_tokens + usage.completion_tokens,
        first_token_latency_ms=usage.first_token_latency_ms,
        latency_ms=usage.latency_ms,
        status=ModelUsageStatus.ERROR if status is TurnStatus.FAILED else ModelUsageStatus.SUCCESS,
        task_id=ingest.id(turn.task_id) or None,
    )


def close_turn(
    records: RecordGroup, turn: OpenTurn, status: TurnStatus, error_code: str = ""
) -> None:
    """Close a turn; one that failed may be taken up again by a retry of the same request."""
    view, row = records.view, turn.row
    row.status = turn.handle.status = status
    row.closed_at, row.owner = records.ingest.clock.now_iso(), ""  # nobody holds it any more
    code = records.ingest.code(error_code, "error") if error_code else ""
    if codes := [c for c in records.degradations() if c not in turn.report.degradations]:
        turn.report.degradations += codes
        row.report = {**row.report, "degradations": turn.report.degradations}
    if code and status is not TurnStatus.COMMITTED:
        row.report = {**row.report, "errors": [*row.report.get("errors", ()), code]}
    if redactions := list(records.ingest.redactions.values()):
        turn.report.redactions += redactions
        if row.report:
            all_redactions = [record.model_dump() for record in turn.report.redactions]
            row.report = {**row.report, "redactions": all_redactions}
    records.writes.append(put_turn(row))
    view.turns.pop(row.turn_id, None)
    _note_end(records, turn, status, code)
    if status is TurnStatus.COMMITTED:
        if turn.question is not None:
            view.failed.pop(turn.question, None)
        return
    if turn.question is not None and status is TurnStatus.FAILED:
        view.failed[turn.question] = turn
    if code:
        records.events.append(
            records.ingest.event(
                EventType.ERROR,
                payload={**Degradation(code).payload, "status": str(status)},
                turn_id=row.turn_id,
                request_id=row.request_id,
            )
        )


def _note_end(records: RecordGroup, turn: OpenTurn, status: TurnStatus, code: str) -> None:
    """Ask for a person where the rules of handing over say so (B-06)."""
    row = turn.row
    if row.purpose != "chat":
        return
    ids = {"turn_id": row.turn_id, "request_id": row.request_id}
    if status in (TurnStatus.COMMITTED, TurnStatus.FAILED):
        is_failure = status is TurnStatus.FAILED
        records.note_end("model_call", row.lane, is_failure=is_failure, **ids)
    name, _ = error_parts(code)
    if codes := records.handover.on_codes & {code, name, *turn.report.degradations}:
        records.ask_for_person({"trigger": "code", "codes": sorted(codes)}, **ids)


def abandon(records: RecordGroup, turns: Sequence[TurnRow]) -> None:
    """Close turns whose process is gone."""
    for row in turns:
        row.status = TurnStatus.ABANDONED
        row.closed_at = records.ingest.clock.now_iso()
        records.writes.append(put_turn(row))
