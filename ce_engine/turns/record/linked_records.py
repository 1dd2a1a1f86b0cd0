"""What a host reports becomes records: messages, tool runs, retrievals and evidence, all linked (A-03)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ce_engine.ports.evidence import EvidenceDraft
from ce_engine.schema.document import (
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    Message,
    ToolCall,
    ToolProvider,
    ToolRequest,
)
from ce_engine.schema.enums import (
    EvidenceType,
    ProviderKind,
    Role,
    SourceKind,
    ToolCallStatus,
    ToolType,
)
from ce_engine.schema.rows import (
    MessageRow,
    ToolCallRow,
)
from ce_engine.schema.tool_runs import IngestOptions, Retrieval, ToolRun
from ce_engine.sessions.view import SessionView
from ce_engine.text.redaction.pieces import refs
from ce_engine.turns.record.evidence_rows import evidence_row
from ce_engine.turns.record.persistence_boundary import Ingest
from ce_engine.turns.record.write_group import RecordGroup, tool_call_key


CALLS_BACK = 64
"""Messages that are searched for the call of a run's own request, where hosts reuse their ids."""

MAX_ERROR_CHARS = 2000
"""Of what a tool's error says: the rest of a traceback helps nobody."""


def find_call(
    view: SessionView, host_call_id: str | None, request_id: str = "", lane_key: str | None = None
) -> tuple[str, str] | None:
    """(our id, message id) of the newest call with the host's id, if a message asked for it.

    One of the same request comes first: requests side by side may all say `call_0`. With `lane_key`,
    one of another lane is none.
    """
    back = [n for n in _asking(view, host_call_id) if lane_key in (None, view.rows[n].lane_key)]
    if not back or host_call_id is None:
        return None
    n = next((n for n in back if view.rows[n].request_id == request_id), back[0])
    entry = view.log[n]
    return tool_call_key(entry.message_id, entry.calls.index(host_call_id)), entry.message_id


def _find_nameless(
    view: SessionView, request: ToolRequest, request_id: str
) -> tuple[str, str] | None:
    """The same of a call that has no id, by what it asks for: it waits in the run's own request."""
    waiting = (
        (tool_call_key(view.log[n].message_id, position), view.log[n].message_id)
        for n in _asking(view, "")
        if view.rows[n].request_id == request_id and not view.log.results(n)
        for position, call in enumerate(view.rows[n].message.tool_calls or ())
        if (call.id or None, call.name, call.args) == (None, request.name, request.args)
    )
    return next((call_ids for call_ids in waiting if call_ids[0] not in view.tool_runs), None)


def _asking(view: SessionView, host_call_id: str | None) -> Iterator[int]:
    """The entries that ask for a call with the host's id, newest first."""
    newest = view.log.caller(host_call_id)
    back = range(newest, max(-1, newest - CALLS_BACK), -1) if newest is not None else ()
    return (n for n in back if host_call_id in view.log[n].calls)


def record_tool_message(records: RecordGroup, row: MessageRow, caller: MessageRow | None) -> None:
    """Make the evidence of a tool result that stands in the host's list, linked to its call.

    The call itself is recorded here too, since not every host reports its tools' runs; a run that was
    reported has told more, and its row stands. A result that tells of no call is evidence alone.
    """
    message, view = row.message, records.view
    call, asked_by = _call_of(records, row, caller)
    reported = view.tool_runs.get(call.tool_call_id)
    if reported is not None and reported.status is ToolCallStatus.ERROR:
        message.status = "error"  # not every framework's message says so
    is_new = reported is not None or not _has_result(view, asked_by, caller)
    source, kind = _result_kind((reported or call).type)
    evidence = evidence_row(
        records.ingest,
        EvidenceDraft("", EvidenceSource(kind=source, name=call.tool), kind, status=call.status),
        links=EvidenceLinks(tool_call_id=call.tool_call_id if call.tool else None),
        clean={"message_id": message.message_id},
        message_id=message.message_id,
    )
    evidence.dedup_key = _result_key(view, call.tool_call_id, row.key)
    evidence.lane_key = row.lane_key
    evidence_id = records.add_evidence(evidence, row.request_id, row.turn_id)
    message.refs = refs([evidence_id])
    if not (is_new and call.tool):
        return
    reported = view.tool_runs.pop(call.tool_call_id, call)
    ids = list(dict.fromkeys([*reported.result_evidence_ids, evidence_id]))
    # What the model was told of an error stands in the result, once.
    ended = reported.model_copy(update={"result_evidence_ids": ids, "error": None})
    records.add_tool_call(
        ToolCallRow(ended, message.tool_call_id, asked_by, row.turn_id), row.request_id
    )


def record_content(  # noqa: PLR0913 - of what evidence is, and where it comes from
    records: RecordGroup,
    content: str,
    source: EvidenceSource,
    kind: EvidenceType,
    *,
    links: EvidenceLinks | None = None,
    metadata: Mapping[str, Any] | None = None,
    options: IngestOptions | None = None,
    turn_id: str | None = None,
    is_stored: bool = False,
) -> Evidence:
    """Record evidence, or find it again: the stored one is returned, with another link (A-09)."""
    ingest, ingest_options, fields = records.ingest, options or IngestOptions(), metadata or {}
    row = evidence_row(
        ingest,
        EvidenceDraft(
            content, source, kind, fields, str(fields.get("status", "")), ingest_options.confidence
        ),
        links=ingest.links(links or EvidenceLinks()),
        is_stored=is_stored,
    )
    if not ingest_options.dedup:
        row.dedup_key = ingest.own_key()
    elif ingest_options.pure_args is not None:
        row.dedup_key = ingest.pure_key(source.name, source.uri, ingest_options.pure_args)
    else:
        row.dedup_key = ingest.dedup_key(source, content)
    row.lane_key = ingest.id(ingest.scope.agent_id)
    evidence_id = records.add_evidence(row, "", ingest.id(turn_id))
    return records.view.evidence[evidence_id].evidence.model_copy(deep=True)


def _result_kind(tool: ToolType) -> tuple[SourceKind, EvidenceType]:
    """What a tool's result is evidence of."""
    if tool is ToolType.SKILL:
        return SourceKind.SKILL, EvidenceType.SKILL_OUTPUT
    return SourceKind.TOOL, EvidenceType.TOOL_RESULT


def _result_key(view: SessionView, tool_call_id: str, content_key: bytes) -> bytes:
    """The same for the run of a call and for the message that carries its result."""
    text = f"result\x00{tool_call_id}\x00{content_key.hex()}"
    return view.fingerprinter.mac("evidence", text)


def _has_result(view: SessionView, asked_by: str | None, caller: MessageRow | None) -> bool:
    """Whether the call was made in another line, where its result stands already."""
    if caller is None or asked_by in (None, caller.message.message_id):
        return False
    n = view.log.by_message_id(asked_by or "")
    return n is not None and bool(view.log.results(n))


def _asked_by(view: SessionView, caller: MessageRow, request: ToolRequest) -> MessageRow:
    """Who asked for a call first: a list that is handed to another agent may hold an excerpt of calls."""
    for row in (view.rows[n] for n in _asking(view, request.id)):
        if (
            (row.speaker, row.request_id) == (caller.speaker, caller.request_id)
            and row.lane_key != caller.lane_key
            and request in (row.message.tool_calls or ())
        ):
            return row
    return caller


def _place_of(records: RecordGroup, caller: MessageRow, call_id: str | None) -> int | None:
    """Where the call stands among those that a message asks for."""
    name, calls = caller.message.message_id or "", caller.message.tool_calls or ()
    if (places := records.call_places.get(name)) is None:
        places = records.call_places[name] = {}
        for place, call in enumerate(calls):
            places.setdefault(call.id, place)
    return places.get(call_id)


def _call_of(
    records: RecordGroup, row: MessageRow, caller: MessageRow | None
) -> tuple[ToolCall, str | None]:
    """The call that a tool message answers, and the message that asked for it."""
    message = row.message
    assert message.message_id is not None
    key, name, args = message.message_id, message.author.id if message.author else "", {}
    asked_by = None
    place = _place_of(records, caller, message.tool_call_id) if caller is not None else None
    if caller is not None and place is not None:
        request = (caller.message.tool_calls or ())[place]
        first = _asked_by(records.view, caller, request).message
        asked_by, position = first.message_id, place
        if first is not caller.message:
            position = (first.tool_calls or []).index(request)
        assert asked_by is not None
        key, name, args = tool_call_key(asked_by, position), request.name, request.args
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


def _run_key(records: RecordGroup, run: ToolRun, key: str) -> bytes:
    """Results are not deduplicated by content: two runs are two facts, but for a tool that is pure."""
    if run.pure and run.status is ToolCallStatus.SUCCESS:
        return records.ingest.pure_key(run.name, run.provider_uri, run.args)
    view = records.view
    message = Message(role=Role.TOOL, content=run.result)
    content_key, _ = view.fingerprinter.message(message, run.media)
    return _result_key(view, key, content_key)


def stored_error(ingest: Ingest, text: str | None) -> str | None:
    """What a tool's error says, as it may be stored; `None` for nothing, and where no content is kept."""
    if not text or ingest.points_only("tool_results"):
        return None
    return ingest.text(text, "tool_results")[0].text[:MAX_ERROR_CHARS] or None


def record_tool_run(
    records: RecordGroup, run: ToolRun, request_id: str, lane_key: str = ""
) -> ToolCall:
    """Record a tool's run, and its result as evidence; the message that carries it is linked later."""
    view, ingest = records.view, records.ingest
    host_call_id, request_id = ingest.id(run.host_call_id), ingest.id(request_id)
    call_ids = find_call(view, host_call_id, request_id)
    if call_ids is None and view.log.caller("") is not None:
        request = ToolRequest(name=ingest.name(run.name), args=ingest.args(run.args))
        call_ids = _find_nameless(view, request, request_id)
    key = call_ids[0] if call_ids else ingest.id(run.run_id) or ingest.ids.generate()
    call = ToolCall(
        tool_call_id=key,
        tool=ingest.name(run.name),
        provider=ingest.provider(run.provider_kind, run.provider_name, run.provider_uri),
        type=run.type or (ToolType.FUNCTION_CALL if call_ids else ToolType.TOOL),
        called_at=ingest.name(run.started_at) or ingest.clock.now_iso(),
        args_digest=ingest.call_args(key, run.args),
        status=run.status,
        duration_ms=run.duration_ms,
        task_id=ingest.id(run.task_id),
        error=stored_error(ingest, run.error),
    )
    if run.result:
        source, kind = _result_kind(call.type)
        of = EvidenceSource(kind=source, name=run.name, uri=run.provider_uri)
        evidence = evidence_row(
            ingest,
            EvidenceDraft(run.result, of, kind, status=run.status),
            links=EvidenceLinks(tool_call_id=key),
            clean={} if run.status is ToolCallStatus.SUCCESS else {"status": str(run.status)},
        )
        evidence.dedup_key = _run_key(records, run, key)
        evidence.lane_key = _lane_of(view, call_ids[1]) if call_ids else ingest.id(lane_key)
        call.result_evidence_ids = [records.add_evidence(evidence, request_id)]
    if call_ids:
        view.tool_runs[key] = call  # its message may never come: a tool's result can be an answer
    records.add_tool_call(
        ToolCallRow(call, host_call_id, call_ids[1] if call_ids else None), request_id
    )
    return call


def _lane_of(view: SessionView, message_id: str) -> str:
    n = view.log.by_message_id(message_id)
    return view.rows[n].lane_key if n is not None else ""


def _finder(source: EvidenceSource, document_id: str) -> EvidenceSource:
    """Who finds a document, as far as it tells documents apart: of one id it is the same, whoever does."""
    return source.model_copy(update={"name": ""}) if document_id else source


def record_retrieval(
    records: RecordGroup, hit: Retrieval, request_id: str, lane_key: str = ""
) -> list[str]:
    """Record a retrieval as a tool call, and its hits as `rag_doc` evidence (A-29)."""
    view, ingest = records.view, records.ingest
    request_id, lane_key = ingest.id(request_id), ingest.id(lane_key)
    key, ids = ingest.id(hit.run_id) or ingest.ids.generate(), []
    for rank, document in enumerate(hit.documents):
        name = ingest.id(document.id)  # a number is no id because our own field says so
        ranking = {"rank": rank, "score": document.score, "score_kind": hit.score_kind}
        metadata = {**document.metadata, **ranking, "document_id": name}
        source = EvidenceSource(kind=SourceKind.RAG, name=hit.name, uri=document.uri)
        metadata = {field: value for field, value in metadata.items() if value not in (None, "")}
        row = evidence_row(
            ingest,
            EvidenceDraft(document.text, source, EvidenceType.RAG_DOC, metadata),
            links=EvidenceLinks(tool_call_id=key),
            clean={"document_id": name} if name and not ingest.points_only("metadata") else None,
        )
        row.dedup_key = ingest.dedup_key(_finder(source, name), document.text)
        row.lane_key = lane_key
        evidence_id = records.add_evidence(row, request_id)
        ids.append(evidence_id)
        if request_id:
            # All of the run's calls may hold them, helpers' too.
            stored_text = view.evidence[evidence_id].evidence.content
            view.request(request_id).add_document(evidence_id, document.text, stored_text)
    call = ToolCall(
        tool_call_id=key,
        tool=ingest.name(hit.name),
        provider=ingest.provider(hit.provider_kind, hit.provider_name, hit.provider_uri),
        called_at=ingest.name(hit.started_at) or ingest.clock.now_iso(),
        args_digest=ingest.call_args(key, {"query": hit.query}),
        duration_ms=hit.duration_ms,
        result_evidence_ids=list(dict.fromkeys(ids)),
    )
    records.add_tool_call(ToolCallRow(call), request_id)
    return ids
