"""What a host hands in by hand, in one await each: evidence, tool runs, retrievals, blocks, tasks (A-09, A-29)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ce_engine.config import RuntimeConfig
from ce_engine.errors import ConfigError, ContextEngineError, RedactionError
from ce_engine.ports.redaction import RedactResult
from ce_engine.ports.store import Store
from ce_engine.ports.tokens import TokenEstimator
from ce_engine.schema.document import (
    ContextBlock,
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    Task,
    ToolCall,
)
from ce_engine.schema.enums import EvidenceType
from ce_engine.schema.events import EventType
from ce_engine.schema.rows import PutBlocks, UpsertTasks
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.schema.tool_runs import IngestOptions, Retrieval, ToolRun
from ce_engine.text.redaction.pieces import RedactionTally
from ce_engine.turns.block_macs import gives_orders, mac_of
from ce_engine.turns.record.linked_records import record_content, record_retrieval, record_tool_run
from ce_engine.turns.record.tasks import task_text
from ce_engine.turns.record.tool_runs import ToolRunMethods
from ce_engine.turns.record.write_group import RecordGroup


class IngestionMethods(ToolRunMethods):
    """Records what is handed in, and waits until it is stored."""

    config: RuntimeConfig
    estimator: TokenEstimator
    store: Store

    async def ingest(
        self,
        session_id: Scope | str,
        content: str,
        source: EvidenceSource,
        evidence_type: EvidenceType,
        links: EvidenceLinks | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: IngestOptions | None = None,
    ) -> Evidence:
        """Take evidence in, redacted, and give it as it is stored (A-09).

        The same content of the same source is stored once: the stored one is given, with a link more.
        `metadata` may hold `score` and `score_kind` (see `Retrieval`) and `status` (how the tool
        ended) for the confidence; doc_version, effective_at, domain and tags are kept with it.

        Raises:
            ConfigError: `redact=False`, while the engine redacts.
        """
        if options is not None and not options.redact and self.config.redaction.enabled:
            raise ConfigError(
                "IngestOptions(redact=False) was asked for, and nothing unredacted is stored (B-02). "
                "RedactionConfig(enabled=False) switches redaction off for the whole engine."
            )

        def record(records: RecordGroup) -> Evidence:
            return record_content(
                records,
                content,
                source,
                evidence_type,
                links=links,
                metadata=metadata,
                options=options,
            )

        parts = [content, source, links, metadata]
        evidence = await self._record(as_scope(session_id), record, wait=True, parts=parts)
        assert isinstance(evidence, Evidence)
        return evidence

    async def redact(self, session_id: Scope | str, text: str) -> RedactResult:
        """A text as this session would store it: `[EMAIL_1]` is the same mail address as in its messages (B-04).

        For an app that does not show its users what its model said of others. Nothing else is done to
        answers: what the model said reaches the app.

        Raises:
            RedactionError: redaction failed, or took longer than it may: nothing of the text is given.
        """

        def record(records: RecordGroup) -> RedactResult:
            redacted, withheld = records.ingest.text(text)
            if withheld:
                raise RedactionError(
                    f"the text of {len(text)} characters could not be redacted; nothing of it is given. "
                    "RedactionConfig(max_text_chars=..., timeout_s=...) say how long a text may be and take"
                )
            return redacted

        result = await self._record(as_scope(session_id), record, wait=True, parts=[text])
        assert isinstance(result, RedactResult)
        return result

    async def record_tool_run(
        self, session_id: Scope | str, run: ToolRun, *, request_id: str = ""
    ) -> ToolCall:
        """Record a tool's run and its result; give the call as stored, which names the evidence (A-29)."""
        scope = as_scope(session_id)

        def record(records: RecordGroup) -> ToolCall:
            return record_tool_run(records, run, request_id, scope.agent_id).model_copy(deep=True)

        call = await self._record(scope, record, wait=True, parts=[run])
        assert isinstance(call, ToolCall)
        return call

    async def record_retrieval(
        self, session_id: Scope | str, hit: Retrieval, *, request_id: str = ""
    ) -> list[str]:
        """Record a retrieval as a tool call; give the ids of its `rag_doc` evidence, best first (A-29)."""
        scope = as_scope(session_id)

        def record(records: RecordGroup) -> list[str]:
            return record_retrieval(records, hit, request_id, scope.agent_id)

        evidence_ids: list[str] = await self._record(
            scope, record, wait=True, parts=[hit, *hit.documents]
        )
        return evidence_ids

    async def put_context_blocks(
        self, session_id: Scope | str, blocks: Sequence[ContextBlock]
    ) -> None:
        """Keep blocks with the session, redacted, for its next calls; one of the same id is replaced."""

        def record(records: RecordGroup) -> None:
            stored_blocks = [self._block(records, block) for block in blocks]
            records.writes.append(PutBlocks(stored_blocks))
            records.view.tasks_and_blocks = None
            payload = {"block_ids": [block.block_id for block in stored_blocks]}
            records.events.append(records.ingest.event(EventType.BLOCKS_DERIVED, payload=payload))

        await self._record(as_scope(session_id), record, wait=True, parts=blocks)

    def _block(self, records: RecordGroup, block: ContextBlock) -> ContextBlock:
        ingest = records.ingest
        piece = RedactionTally(ingest.id(block.block_id))
        is_apart = ingest.is_apart(block.sensitivity)
        content = ingest.content(block.content, piece, kind="evidence", is_apart=is_apart)[0].text
        if is_apart:
            ingest.note_piece(piece, block.content)
        hint = self.config.model_hint
        update = {
            "content": content,
            "block_id": ingest.id(block.block_id),
            "refs": ingest.refs(block.refs) or [],
            "token_estimate": block.token_estimate or self.estimator.estimate_text(content, hint),
            "created_at": ingest.id(block.created_at) or ingest.clock.now_iso(),
            "sensitivity": ingest.id(block.sensitivity),
            "mac": None,
        }
        stored_block = block.model_copy(update=update)
        if not gives_orders(stored_block):
            return stored_block
        try:
            secret = self.store.secret
        except ContextEngineError:  # it is away: what has no MAC is quoted
            return stored_block
        mac = mac_of(secret, records.view.scope, stored_block)
        return stored_block.model_copy(update={"mac": mac})

    async def upsert_tasks(self, session_id: Scope | str, tasks: Sequence[Task]) -> None:
        """Keep the session's tasks, redacted; one of the same id is replaced, a new one comes last."""

        def record(records: RecordGroup) -> None:
            ingest, key = records.ingest, records.ingest.id
            stored_tasks = [
                task.model_copy(
                    update={
                        "task_id": key(task.task_id),
                        "depends_on": [key(task_id) for task_id in task.depends_on],
                        "result_evidence_ids": [
                            key(evidence_id) for evidence_id in task.result_evidence_ids
                        ],
                        "name": task_text(ingest, task.name),
                        "error": task_text(ingest, task.error),
                        "framework": key(task.framework),
                    }
                )
                for task in tasks
            ]
            records.writes.append(UpsertTasks(stored_tasks))
            records.view.tasks_and_blocks = None

        await self._record(as_scope(session_id), record, wait=True, parts=tasks)
