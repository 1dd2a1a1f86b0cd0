"""Evidence that disagrees, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from ce_engine.apps.present.html_text import Piece, difference
from ce_engine.schema.document import Evidence, SessionDocument
from ce_engine.schema.report import ConflictRecord, Report


@dataclass(frozen=True, slots=True)
class Side:
    """One of those that disagree; `evidence` is `None` where it is not there any more."""

    id: str
    evidence: Evidence | None
    pieces: list[Piece]

    @property
    def source(self) -> str:
        if self.evidence is None:
            return ""
        source = self.evidence.source
        return source.uri or source.name

    @property
    def at(self) -> str:
        return str(self.evidence.metadata.get("created_at", "")) if self.evidence else ""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One conflict: its record, and all who take part, each beside the first."""

    record: ConflictRecord
    sides: list[Side]


def conflicts(report: Report, document: SessionDocument) -> list[Disagreement]:
    """The conflicts of a turn, with the texts of those that disagree."""
    return [Disagreement(record, _sides(record, document)) for record in report.conflicts]


def _sides(record: ConflictRecord, document: SessionDocument) -> list[Side]:
    found = [document.evidences.get(name) for name in record.evidence_ids]
    first = next((each.content for each in found if each is not None), "")
    made = []
    for name, evidence in zip(record.evidence_ids, found, strict=True):
        text = evidence.content if evidence is not None else ""
        pieces = [("same", text)] if text == first else difference(first, text)
        made.append(Side(name, evidence, [p for p in pieces if p[0] != "gone"]))
    return made
