"""Facts beside the model calls: tool runs, retrievals, and records of the host's own (A-13, A-29)."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ce_engine.config import RuntimeConfig
from ce_engine.schema.document import (
    PAYLOAD,
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    ModelUsage,
    Ref,
    ToolCall,
)
from ce_engine.schema.enums import EvidenceType
from ce_engine.schema.events import EventType
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import AppendModelUsage, ToolCallRow
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.schema.tool_runs import Retrieval, TaskRun, ToolRun
from ce_engine.turns.record.linked_records import (
    record_content,
    record_retrieval,
    record_tool_run,
    stored_error,
)
from ce_engine.turns.record.tasks import record_tasks
from ce_engine.turns.record.write_group import RecordGroup


Record = Callable[[RecordGroup], Any]

MAX_PAYLOAD_CHARS = 8000
"""Of a recorded event's payload: what is larger stands beside the log (B-02)."""


class ToolRunMethods(ABC):
    """Records facts under the session's lock; the engine says how."""

    @abstractmethod
    async def _record(
        self,
        scope: Scope,
        record: Record,
        *,
        framework: str = "",
        ephemeral: bool = False,
        wait: bool = False,
        parts: Iterable[Any] = (),
    ) -> Any:
        """Run `record` on the session's view and submit what it made.

        `parts` are what it is made of, whole: what has long texts is not worked on on the loop.
        """

    @abstractmethod
    async def _check(self, scope: Scope, refs: Sequence[Ref] | None) -> None:
        """See that refs lead to evidence of the session."""

    @abstractmethod
    async def _await_storage(self, scope: Scope) -> PutResult:
        """Wait, within the store's deadline, for what was recorded."""

    @abstractmethod
    def _post(
        self,
        scope: Scope,
        record: Record,
        ephemeral: bool,
        framework: str,
        parts: Iterable[Any] = (),
        config: RuntimeConfig | None = None,
    ) -> None:
        """The same without waiting; the next phase of the session lets it come first."""

    def post_tool_run(
        self,
        session_id: Scope | str,
        run: ToolRun,
        *,
        request_id: str = "",
        ephemeral: bool = False,
        framework: str = "",
        lane_key: str = "",
        config: RuntimeConfig | None = None,
    ) -> None:
        """Hand a tool's run over without waiting; the next phase of the session waits for it.

        `config` is that of the calls beside it; else the engine's.
        """
        scope = as_scope(session_id)
        lane = lane_key or scope.agent_id
        self._post(
            scope,
            lambda r: record_tool_run(r, run, request_id, lane),
            ephemeral,
            framework,
            [run],
            config,
        )

    def post_retrieval(
        self,
        session_id: Scope | str,
        hit: Retrieval,
        *,
        request_id: str = "",
        ephemeral: bool = False,
        framework: str = "",
        lane_key: str = "",
        config: RuntimeConfig | None = None,
    ) -> None:
        """Hand a retrieval over without waiting; its hits become `rag_doc` evidence.

        They are the lane's alone: `lane_key`, else the scope's agent, as in `ModelCall`.
        """
        scope = as_scope(session_id)
        lane = lane_key or scope.agent_id
        self._post(
            scope,
            lambda r: record_retrieval(r, hit, request_id, lane),
            ephemeral,
            framework,
            [hit, *hit.documents],
            config,
        )

    def post_tasks(
        self,
        session_id: Scope | str,
        runs: Sequence[TaskRun],
        *,
        request_id: str = "",
        ephemeral: bool = False,
        framework: str = "",
        lane_key: str = "",
        config: RuntimeConfig | None = None,
    ) -> None:
        """Hand over where tasks of a framework stand, without waiting; they go into the to-do list."""
        scope = as_scope(session_id)
        lane = lane_key or scope.agent_id
        self._post(
            scope,
            lambda r: record_tasks(r, runs, request_id, lane),
            ephemeral,
            framework,
            [text for run in runs for text in run.texts],
            config,
        )

    async def record_tool_call(
        self,
        session_id: Scope | str,
        tool_call: ToolCall,
        result_evidence_ids: Sequence[str] | None = None,
        turn_id: str | None = None,
    ) -> PutResult:
        """Record a tool call of the host's own, redacted."""

        def record(records: RecordGroup) -> None:
            ingest, by = records.ingest, tool_call.provider
            call_id = ingest.id(tool_call.tool_call_id)
            ids = [*tool_call.result_evidence_ids, *(result_evidence_ids or ())]
            call = tool_call.model_copy(
                update={
                    "tool_call_id": call_id,
                    "called_at": ingest.name(tool_call.called_at),
                    "task_id": ingest.id(tool_call.task_id),
                    "error": stored_error(ingest, tool_call.error),
                    "tool": ingest.name(tool_call.tool),
                    "provider": ingest.provider(by.kind, by.name, by.uri),
                    "args_digest": ingest.call_args(call_id, tool_call.args_digest),
                    "result_evidence_ids": list(dict.fromkeys(map(ingest.id, ids))),
                }
            )
            records.add_tool_call(ToolCallRow(call, turn_id=ingest.id(turn_id)), "")

        scope = as_scope(session_id)
        await self._record(scope, record, wait=True, parts=[tool_call])
        return await self._await_storage(scope)

    async def record_model_usage(
        self,
        session_id: Scope | str,
        model_usage: ModelUsage,
        llm_output_evidence_id: str | None = None,
        *,
        turn_id: str | None = None,
    ) -> PutResult:
        """Record what a model call used, redacted; once for one `model_usage_id`.

        Args:
            session_id: whose.
            model_usage: tokens and time.
            llm_output_evidence_id: the evidence that came of it; it is linked to the usage.
            turn_id: the turn that asked the model.

        Raises:
            EvidenceNotFoundError: there is no such evidence in the session.
        """

        def record(records: RecordGroup) -> None:
            ingest = records.ingest
            only_numbers = ingest.points_only("payloads")
            usage = model_usage.model_copy(
                update={
                    "model_usage_id": ingest.id(model_usage.model_usage_id),
                    "task_id": ingest.id(model_usage.task_id),
                    "provider": ingest.name(model_usage.provider),
                    "model": ingest.name(model_usage.model),
                    "params": {} if only_numbers else ingest.data(model_usage.params) or {},
                    "error": "" if only_numbers else ingest.name(model_usage.error),
                }
            )
            if not records.is_told("usage", usage.model_usage_id, usage):
                records.writes.append(AppendModelUsage([usage], ingest.id(turn_id)))
            if output is not None:
                links = EvidenceLinks(model_usage_id=usage.model_usage_id)
                records.link(output.evidence_id, links)

        scope = as_scope(session_id)
        output = Ref(evidence_id=llm_output_evidence_id) if llm_output_evidence_id else None
        await self._check(scope, [output] if output is not None else None)
        await self._record(scope, record, wait=True, parts=[model_usage])
        return await self._await_storage(scope)

    async def record_evidence(
        self,
        session_id: Scope | str,
        content: str,
        source: EvidenceSource,
        type: EvidenceType,  # noqa: A002 - the schema's name
        *,
        links: EvidenceLinks | None = None,
        metadata: Mapping[str, Any] | None = None,
        turn_id: str | None = None,
    ) -> Evidence:
        """Record evidence, redacted; the same content of the same source is stored once (A-09)."""

        def record(records: RecordGroup) -> Evidence:
            return record_content(
                records, content, source, type, links=links, metadata=metadata, turn_id=turn_id
            )

        parts = [content, source, links, metadata, turn_id]
        evidence = await self._record(as_scope(session_id), record, wait=True, parts=parts)
        assert isinstance(evidence, Evidence)
        return evidence

    async def record_event(
        self, session_id: Scope | str, kind: str, payload: Mapping[str, Any]
    ) -> None:
        """Record an event of the host's own, redacted.

        `kind` is a word (planner, reflection, aggregate, hitl); what is none becomes `recorded`. A payload
        of more than `MAX_PAYLOAD_CHARS`, as JSON, becomes evidence, and the event refers to it: it holds
        `chars`, `digest` (keyed) and `evidence_id`. No prompt is given that evidence (B-02).
        """

        def record(records: RecordGroup) -> None:
            ingest = records.ingest
            clean = ingest.data(dict(payload), kind="payloads") or {}
            word = ingest.code(kind, "recorded")
            text = json.dumps(clean, ensure_ascii=False)
            if ingest.points_only("payloads"):
                digest = records.view.fingerprinter.mac("payload", text).hex()
                clean = {"chars": len(text), "digest": digest} if clean else {}
            elif len(text) > MAX_PAYLOAD_CHARS:
                evidence = record_content(
                    records, text, PAYLOAD, EvidenceType.OTHER, is_stored=True
                )
                digest = records.view.fingerprinter.mac("payload", text).hex()
                clean = {"chars": len(text), "digest": digest, "evidence_id": evidence.evidence_id}
            records.events.append(ingest.event(EventType.RECORDED, payload=clean, kind=word))

        await self._record(as_scope(session_id), record, wait=True, parts=[kind, payload])
