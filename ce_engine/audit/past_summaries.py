"""The summaries that a turn knew: of those that another has taken the place of since, the text is evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ce_engine.prepare.reconcile.earlier_lanes import EarlierLanes
from ce_engine.schema.document import MessageIndexRange, Summary
from ce_engine.schema.rows import EvidenceRow, SummaryRow
from ce_engine.sessions.summary_coverage import tips_of, unbroken
from ce_engine.sessions.view import SessionView
from ce_engine.stores.row_rules import is_summary
from ce_engine.turns.report.archive import summary_mac


def summaries_of_then(
    view: SessionView,
    macs: Mapping[str, str],
    rows: Sequence[SummaryRow],
    earlier: EarlierLanes | None,
) -> dict[str, SummaryRow]:
    """The summaries of an archive whose text is still there, by their anchors.

    Args:
        view: the session as the turn knew it.
        macs: the MACs of their texts, by their anchors.
        rows: the summaries that the session has now.
        earlier: the lanes that could be brought in, where the app sends no history.
    """
    mac = view.fingerprinter
    summaries = {
        row.anchor_message_id: row
        for row in rows
        if macs.get(row.anchor_message_id) == summary_mac(mac, row.summary.content)
    }
    summary_rows = [row for row in view.evidence.values() if is_summary(row.evidence)]
    texts = {
        summary_mac(mac, row.evidence.content): row for row in summary_rows
    }  # the newest of a text
    for anchor, text in macs.items():
        if anchor not in summaries and text in texts:
            tips = _tips(view, anchor, earlier)
            if tips:
                summaries[anchor] = _row(anchor, texts[text], tips)
    return summaries


def _row(anchor: str, row: EvidenceRow, tips: list[str]) -> SummaryRow:
    evidence = row.evidence
    at = str(evidence.metadata.get("created_at", ""))
    span = MessageIndexRange(from_index=0, to_index=0)
    summary = Summary(content=evidence.content, updated_at=at, message_index_range=span)
    return SummaryRow(
        anchor, summary, tips, lane_key=row.lane_key, evidence_id=evidence.evidence_id
    )


def _tips(view: SessionView, anchor: str, earlier: EarlierLanes | None) -> list[str]:
    """What a summary up to this message stood for: the lanes before its own, and the path to it."""
    log, n = view.log, view.log.by_message_id(anchor)
    if n is None:
        return []
    entries: list[int] = []
    if earlier is not None:
        before = EarlierLanes(log, log.root(n), earlier.lane_key, earlier.without)
        for lane in reversed(list(before)):
            entries += unbroken(view, lane)
    return [log[tip].message_id for tip in tips_of(log, [*entries, n], None)]
