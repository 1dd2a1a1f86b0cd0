"""What a framework tells of its own tasks becomes the session's to-do list, each with what it gave (A-24)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ce_engine.ports.evidence import EvidenceDraft
from ce_engine.schema.document import EvidenceLinks, EvidenceSource, Task
from ce_engine.schema.enums import EvidenceType, Role, SourceKind
from ce_engine.schema.rows import UpsertTasks
from ce_engine.schema.tool_runs import TaskRun
from ce_engine.turns.record.evidence_rows import evidence_row
from ce_engine.turns.record.persistence_boundary import Ingest
from ce_engine.turns.record.write_group import RecordGroup


MAX_TASK_CHARS = 2000
"""A task's name and error: what is longer, redacted, is cut off."""

NEWEST = 64
"""Messages from the end in which a task's result is looked for."""


def task_text(ingest: Ingest, text: str) -> str:
    """What a task is called or failed with, as it may be stored; nothing where payloads are not kept."""
    return "" if ingest.points_only("payloads") else ingest.name(text, MAX_TASK_CHARS)


def record_tasks(
    records: RecordGroup, runs: Sequence[TaskRun], request_id: str, lane_key: str = ""
) -> None:
    """Record where tasks stand; what one gave is the answer that said so, or evidence of its own."""
    ingest, request_id, lane_key = records.ingest, *map(records.ingest.id, (request_id, lane_key))
    tasks = [
        Task(
            task_id=ingest.id(run.task_id),
            name=task_text(ingest, run.name),
            status=run.status,
            depends_on=list(map(ingest.id, run.depends_on)),
            result_evidence_ids=_result(records, run, request_id, lane_key),
            error=task_text(ingest, run.error),
            framework=ingest.framework,
        )
        for run in runs
    ]
    records.writes.append(UpsertTasks(tasks))


def _result(records: RecordGroup, run: TaskRun, request_id: str, lane_key: str) -> list[str]:
    if not run.result:
        return []
    view, stored_text = records.view, records.ingest.text(run.result)[0].text
    for row in islice(reversed(view.rows), NEWEST):
        message, message_id = row.message, row.message.message_id or ""
        if (
            message.role is not Role.USER
            and message.content == stored_text
            and message_id in view.by_message
        ):
            return [view.by_message[message_id]]
    name = "" if records.ingest.points_only("payloads") else run.name
    source = EvidenceSource(kind=SourceKind.LLM, name=name)
    evidence = evidence_row(
        records.ingest,
        EvidenceDraft(run.result, source, EvidenceType.LLM_OUTPUT),
        links=EvidenceLinks(),
    )
    evidence.dedup_key = records.ingest.dedup_key(source, run.result)
    evidence.lane_key = lane_key
    return [records.add_evidence(evidence, request_id)]
