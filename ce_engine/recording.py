"""What a host reports becomes records: messages, tool runs, retrievals and evidence, all linked (A-03)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ce_engine.schema.document import (
    EvidenceLinks,
    EvidenceSource,
    Message,
    ToolCall,
    ToolProvider,
)
from ce_engine.schema.enums import (
    EvidenceType,
    ProviderKind,
    Role,
    SourceKind,
    ToolCallStatus,
    ToolType,
)
from ce_engine.schema.events import STORED, Event, EventType
from ce_engine.schema.facts import Retrieval, ToolRun
from ce_engine.schema.rows import (
    AppendEvents,
    AppendMessages,
    AppendToolCalls,
    CreateSession,
    EvidenceRow,
    ForSession,
    LinkEvidence,
    MessageRow,
    PutEvidence,
    PutPlaceholders,
    PutTurn,
    ToolCallRow,
    TurnRow,
    Write,
)
from ce_engine.upload.ingest import Ingest, refs
from ce_engine.view import SessionView


CALLS_BACK = 64
"""Messages that are searched for the call of a run's own request, where hosts reuse their ids."""


@dataclass(slots=True)
class Records:
    """One group of writes in the making, with its events. The view takes everything in at once."""

    view: SessionView
    ingest: Ingest
    writes: list[Write] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    rows: list[MessageRow] = field(default_factory=list)
    evidence_ids: list[str] = field(default_factory=list)
    heard: bool = False
    """Whether anybody listens: events that are not stored are made for listeners only."""

    def finish(self) -> list[Write]:
        """The writes in the order in which a store applies them; empty if there is nothing to write."""
        group = list(self.writes)
        if self.rows:
            group.insert(0, AppendMessages(self.rows))
        if self.view.redactor is not None and (learned := self.view.redactor.learned()):
            group.append(PutPlaceholders(learned))
        if stored := [event for event in self.events if event.event_type in STORED]:
            group.append(AppendEvents(stored))
        head = self.view.head
        if group and not self.view.created:
            group.insert(0, CreateSession(head.salt, head.key_id, head.ephemeral, head.created_at))
        elif group:
            group.insert(0, ForSession(head.key_id, head.epoch))
        return group

    def add_message(self, row: MessageRow) -> int:
        """Record a message and its event; return its entry."""
        self.rows.append(row)
        self.events.append(self.ingest.appended(row))
        message = row.message
        for position, asked in enumerate(message.tool_calls or ()):
            key = tool_call_key(message.message_id or "", position)
            self._called(asked.name, key, row.request_id, row.turn_id)
        return self.view.add_row(row)

    def _called(self, tool: str, tool_call_id: str, request_id: str, turn_id: str | None) -> None:
        self.events.append(
            self.ingest.event(
                EventType.TOOL_CALLED,
                payload={"tool": tool},
                request_id=request_id,
                turn_id=turn_id,
                tool_call_id=tool_call_id,
                meta={"tool_name": tool},
            )
        )

    def add_evidence(self, row: EvidenceRow, request_id: str, turn_id: str | None = None) -> str:
        """Record evidence once: the same content of the same source only gets another link (A-09)."""
        known = self.view.by_dedup.get(row.dedup_key)
        if known is not None:
            self.writes.append(LinkEvidence(known, row.evidence.links, row.message_id))
            if row.message_id is not None:
                self.view.put_in_message(known, row.message_id)
            self._remember(request_id, known)
            return known
        row.turn_id = turn_id
        self.writes.append(PutEvidence(row))
        self.view.add_evidence(row)
        evidence = row.evidence
        self.evidence_ids.append(evidence.evidence_id)
        self.events.append(
            self.ingest.event(
                EventType.EVIDENCE_INGESTED,
                payload={"evidence_id": evidence.evidence_id, "type": str(evidence.type)},
                request_id=request_id,
                turn_id=turn_id,
                tool_call_id=evidence.links.tool_call_id,
                model_usage_id=evidence.links.model_usage_id,
            )
        )
        self._remember(request_id, evidence.evidence_id)
        return evidence.evidence_id

    def _remember(self, request_id: str, evidence_id: str) -> None:
        if request_id:
            self.view.request(request_id).evidence_ids.append(evidence_id)

    def add_tool_call(self, row: ToolCallRow, request_id: str) -> None:
        self.writes.append(AppendToolCalls([row]))
        call = row.call
        if row.message_id is None or not row.ended:  # else the message that asked has told it
            self._called(call.tool, call.tool_call_id, request_id, row.turn_id)
        if not row.ended:
            return
        self.events.append(
            self.ingest.event(
                EventType.TOOL_CALL_COMPLETED,
                payload={"tool": call.tool, "status": str(call.status)},
                request_id=request_id,
                turn_id=row.turn_id,
                tool_call_id=call.tool_call_id,
                meta={"tool_name": call.tool, "duration_ms": call.duration_ms},
            )
        )


def put_turn(row: TurnRow) -> PutTurn:
    """The write of a turn as it is now: the row goes on changing while a store writes it."""
    return PutTurn(replace(row, attempts=list(row.attempts), report=dict(row.report)))


def tool_call_key(message_id: str, position: int) -> str:
    """Our id of a tool call that a message asks for: hosts reuse theirs (`call_0` every turn)."""
    return f"{message_id}:{position}"


def find_call(
    view: SessionView, host_call_id: str | None, request_id: str = ""
) -> tuple[str, str, int] | None:
    """(our id, message id, position) of the newest call with the host's id, if a message asked for it.

    One of the same request comes first: requests side by side may all say `call_0`.
    """
    newest = view.log.caller(host_call_id)
    if newest is None or host_call_id is None:
        return None
    back = range(newest, max(-1, newest - CALLS_BACK), -1) if request_id else ()
    own = (
        n
        for n in back
        if view.rows[n].request_id == request_id and host_call_id in view.log[n].calls
    )
    n = next(own, newest)
    entry = view.log[n]
    position = entry.calls.index(host_call_id)
    return tool_call_key(entry.message_id, position), entry.message_id, position


def record_tool_message(records: Records, row: MessageRow, caller: MessageRow | None) -> None:
    """Make the evidence of a tool result that stands in the host's list, linked to its call.

    The call itself is recorded here too, since not every host reports its tools' runs; a run that was
    reported has told more, and its row stands.
    """
    message = row.message
    call, asked_by = _call_of(row, caller)
    evidence = records.ingest.evidence_row(
        "",
        EvidenceSource(kind=SourceKind.TOOL, name=call.tool),
        EvidenceType.TOOL_RESULT,
        links=EvidenceLinks(tool_call_id=call.tool_call_id),
        clean={"message_id": message.message_id},
        message_id=message.message_id,
    )
    evidence.dedup_key = _result_key(records.view, call.tool_call_id, row.key)
    evidence.lane_key = row.lane_key
    evidence_id = records.add_evidence(evidence, row.request_id, row.turn_id)
    message.refs = refs([evidence_id])
    reported = records.view.tool_runs.pop(call.tool_call_id, call)
    ids = list(dict.fromkeys([*reported.result_evidence_ids, evidence_id]))
    ended = reported.model_copy(update={"result_evidence_ids": ids})
    records.add_tool_call(
        ToolCallRow(ended, message.tool_call_id, asked_by, row.turn_id), row.request_id
    )


def _result_key(view: SessionView, tool_call_id: str, content_key: bytes) -> bytes:
    """The same for the run of a call and for the message that carries its result."""
    what = f"result\x00{tool_call_id}\x00{content_key.hex()}"
    return view.fingerprinter.mac("evidence", what)


def _call_of(row: MessageRow, caller: MessageRow | None) -> tuple[ToolCall, str | None]:
    """The call that a tool message answers, and the message that asked for it."""
    message = row.message
    assert message.message_id is not None
    key, name, args = message.message_id, message.author.id if message.author else "", {}
    asked_by = None
    for position, asked in enumerate((caller.message.tool_calls or ()) if caller else ()):
        if asked.id == message.tool_call_id and caller is not None:
            asked_by = caller.message.message_id
            assert asked_by is not None
            key, name, args = tool_call_key(asked_by, position), asked.name, asked.args
            break
    failed = message.status == "error"
    call = ToolCall(
        tool_call_id=key,
        tool=name,
        provider=ToolProvider(kind=ProviderKind.BUILTIN),
        type=ToolType.FUNCTION_CALL,
        called_at=message.at or "",
        args_digest=dict(args),
        status=ToolCallStatus.ERROR if failed else ToolCallStatus.SUCCESS,
    )
    return call, asked_by


def record_tool_run(records: Records, run: ToolRun, request_id: str, lane_key: str = "") -> str:
    """Record a tool's run, and its result as evidence; the message that carries it is linked later."""
    view, ingest = records.view, records.ingest
    host_call_id = ingest.id(run.host_call_id)
    asked = find_call(view, host_call_id, request_id)
    key = asked[0] if asked else ingest.name(run.run_id)
    call = ToolCall(
        tool_call_id=key,
        tool=ingest.name(run.name),
        provider=ingest.provider(run.provider_kind, run.provider_name, run.provider_uri),
        type=ToolType.FUNCTION_CALL if asked else ToolType.TOOL,
        called_at=ingest.name(run.started_at) or ingest.clock.now_iso(),
        args_digest=ingest.args(run.args),
        status=run.status,
        duration_ms=run.duration_ms,
        task_id=ingest.id(run.task_id),
    )
    if run.result:
        evidence = ingest.evidence_row(
            run.result,
            EvidenceSource(kind=SourceKind.TOOL, name=run.name, uri=run.provider_uri),
            EvidenceType.TOOL_RESULT,
            links=EvidenceLinks(tool_call_id=key),
        )
        # Results are not deduplicated by content: two runs are two facts (design, small rules).
        content_key, _ = view.fingerprinter.message(Message(role=Role.TOOL, content=run.result))
        evidence.dedup_key = _result_key(view, key, content_key)
        evidence.lane_key = _lane_of(view, asked[1]) if asked else lane_key
        call.result_evidence_ids = [records.add_evidence(evidence, request_id)]
    if asked:
        view.tool_runs[key] = call  # its message may never come: a tool's result can be an answer
    message_id = asked[1] if asked else None
    records.add_tool_call(ToolCallRow(call, host_call_id, message_id), request_id)
    return key


def _lane_of(view: SessionView, message_id: str) -> str:
    n = view.log.by_message_id(message_id)
    return view.rows[n].lane_key if n is not None else ""


def record_retrieval(
    records: Records, hit: Retrieval, request_id: str, lane_key: str = ""
) -> list[str]:
    """Record a retrieval as a tool call, and its hits as `rag_doc` evidence (A-29)."""
    view, ingest = records.view, records.ingest
    ids = []
    run_id = ingest.name(hit.run_id)
    for rank, document in enumerate(hit.documents):
        metadata = dict(document.metadata)
        metadata |= {"rank": rank, "score": document.score, "document_id": document.id}
        row = ingest.evidence_row(
            document.text,
            EvidenceSource(kind=SourceKind.RAG, name=hit.name, uri=document.uri),
            EvidenceType.RAG_DOC,
            links=EvidenceLinks(tool_call_id=run_id),
            metadata={key: value for key, value in metadata.items() if value not in (None, "")},
            confidence=confidence_of(document.score),
        )
        row.lane_key = lane_key
        evidence_id = records.add_evidence(row, request_id)
        ids.append(evidence_id)
        if request_id:
            view.request(request_id).documents.append((evidence_id, document.text))
    call = ToolCall(
        tool_call_id=run_id,
        tool=ingest.name(hit.name),
        provider=ingest.provider(hit.provider_kind, hit.provider_name, hit.provider_uri),
        called_at=ingest.name(hit.started_at) or ingest.clock.now_iso(),
        args_digest=ingest.args({"query": hit.query}),
        duration_ms=hit.duration_ms,
        result_evidence_ids=list(dict.fromkeys(ids)),
    )
    records.add_tool_call(ToolCallRow(call), request_id)
    return ids


def confidence_of(score: float | None) -> float | None:
    """A retriever's score as confidence where it is one already, in 0..1 (A-09)."""
    return score if score is not None and 0.0 <= score <= 1.0 else None
