"""What a summarizer made becomes records: its calls, the evidence, and the summary with what it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ce_engine.errors import SummarizerError
from ce_engine.ports.evidence import EvidenceDraft
from ce_engine.ports.llm import LlmRequest, LlmResponse
from ce_engine.runtime.own_calls import OwnCall
from ce_engine.schema.degradation import Degradation
from ce_engine.schema.document import (
    EvidenceLinks,
    EvidenceSource,
    Message,
    MessageIndexRange,
    Summary,
)
from ce_engine.schema.enums import EvidenceType, ModelUsageStage, SourceKind
from ce_engine.schema.events import EventType
from ce_engine.schema.message_forest import MessageForest
from ce_engine.schema.rows import EvidenceRow, PutSummary, SummaryRow
from ce_engine.sessions.summary_coverage import coverage_of, tips_of
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.turns.record.evidence_rows import evidence_row
from ce_engine.turns.record.own_calls import record_own_calls
from ce_engine.turns.record.write_group import RecordGroup


@dataclass(frozen=True, slots=True)
class SummaryMaterial:
    """What of a line is still to be summarised.

    Attributes:
        message_ids: of `messages`, which are stored ones, redacted.
        existing: the line's summary so far, counted from the first message: it ends at -1.
        base: the anchor of that summary.
        epoch: the session's when they were read.
    """

    lane_key: str
    message_ids: Sequence[str]
    messages: Sequence[Message]
    existing: Summary | None
    base: str | None
    epoch: int


def record_summary(
    records: RecordGroup,
    *,
    due: SummaryMaterial,
    summary: Summary,
    calls: Sequence[OwnCall],
    counter: Counter,
) -> bool:
    """Record a summary; false where what it stands for is not there any more, or has one by now."""
    view = records.view
    positions = [view.log.by_message_id(name) for name in due.message_ids]
    entries = [n for n in positions if n is not None]
    if len(entries) < len(positions):
        return False
    # A summarizer of somebody else's may not say what it asked its model.
    calls = calls or [OwnCall(LlmRequest([]), LlmResponse(summary.content))]
    usage_id = record_own_calls(records, calls, counter, ModelUsageStage.SUMMARIZE)
    base = view.summaries.get(due.base) if due.base is not None else None
    if view.head.epoch != due.epoch or (due.base is not None and base is None):
        return False
    evidence = _evidence(records, due, summary, calls, usage_id)
    entries = entries[: summary.message_index_range.to_index + 1]
    on = coverage_of(view, base) if base is not None else None
    row = SummaryRow(
        anchor_message_id=view.log[entries[-1]].message_id,
        summary=summary.model_copy(update={"content": evidence.evidence.content}),
        tips=[view.log[n].message_id for n in tips_of(view.log, entries, on)],
        lane_key=due.lane_key,
        tokens=counter.text(evidence.evidence.content),
        counted_by=records.ingest.counted_by(counter.name),
        evidence_id=evidence.evidence.evidence_id,
        redactor_version=records.ingest.redactor_version,
    )
    _put(records, row, due.epoch)
    _tell(records, row, len(entries), usage_id)
    return True


def record_failure(
    records: RecordGroup, *, due: SummaryMaterial, calls: Sequence[OwnCall], counter: Counter
) -> None:
    """Record that no summary could be made; the session's next report says so, too."""
    view = records.view
    if view.log.by_message_id(due.message_ids[0]) is None:
        return
    if calls:
        record_own_calls(records, calls, counter, ModelUsageStage.SUMMARIZE)
    records.degrade(Degradation(SummarizerError.code))


def _put(records: RecordGroup, row: SummaryRow, epoch: int) -> None:
    view = records.view
    coverage = coverage_of(view, row)
    assert coverage is not None
    row.summary = row.summary.model_copy(
        update={"message_index_range": _range(view.log, coverage.entries)}
    )
    replaces = [
        name
        for name, old in view.summaries.items()
        if name != row.anchor_message_id
        and (other := coverage_of(view, old)) is not None
        and other.entries <= coverage.entries
    ]
    for name in replaces:
        view.summaries.pop(name, None)
        view.coverages.pop(name, None)
    view.summaries[row.anchor_message_id] = row
    records.writes.append(PutSummary(row, epoch, replaces))


def _range(log: MessageForest, entries: Iterable[int]) -> MessageIndexRange:
    """First and last index in the session's list, which is in the order of the store's numbers."""

    def order(n: int) -> tuple[bool, int, int]:
        seq = log[n].seq
        return seq is None, seq or 0, n

    places = sorted(map(order, entries))
    everything = sorted(order(n) for n in range(len(log)))
    first, last = everything.index(places[0]), everything.index(places[-1])
    return MessageIndexRange(from_index=first, to_index=last)


def _evidence(
    records: RecordGroup,
    due: SummaryMaterial,
    summary: Summary,
    calls: Sequence[OwnCall],
    usage_id: str,
) -> EvidenceRow:
    source = EvidenceSource(kind=SourceKind.LLM, name=calls[-1].response.model)
    row = evidence_row(
        records.ingest,
        EvidenceDraft(summary.content, source, EvidenceType.LLM_OUTPUT),
        links=EvidenceLinks(model_usage_id=usage_id),
        clean={"stage": ModelUsageStage.SUMMARIZE.value},
    )
    if not row.evidence.content:
        raise SummarizerError("a summary could not be redacted, and is not stored")
    # Each summary is a fact of its own, whatever it says.
    identity = f"summary\x00{row.evidence.evidence_id}"
    row.dedup_key = records.view.fingerprinter.mac("evidence", identity)
    row.lane_key = due.lane_key
    records.add_evidence(row, "")
    return row


def _tell(records: RecordGroup, row: SummaryRow, messages: int, usage_id: str) -> None:
    covered = row.summary.message_index_range
    payload = {
        "anchor_message_id": row.anchor_message_id,
        "evidence_id": row.evidence_id,
        "from_index": covered.from_index,
        "to_index": covered.to_index,
        "messages": messages,
    }
    records.events.append(
        records.ingest.event(
            EventType.SUMMARY_GENERATED,
            payload=payload,
            model_usage_id=usage_id,
            token_estimate=row.tokens,
        )
    )
