"""Evidence that disagrees, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ce_engine.apps.present.html_text import Piece, difference
from ce_engine.audit.contradictions import Contradiction, contradictions
from ce_engine.audit.noted_sources import IN_NOTE, NotedValues, SourcesSent, has_note
from ce_engine.audit.places.message_places import LEFT_OUT, QUOTED, SENT, SHORTENED
from ce_engine.audit.places.whereabouts import stretches_of
from ce_engine.prepare.choose.conflict import KEEP_BOTH, common_ids
from ce_engine.schema.document import Evidence, SessionDocument
from ce_engine.schema.report import ConflictRecord, report_of
from ce_engine.schema.rows import TurnRow


WENT = {
    SENT: "went out as a message",
    SHORTENED: "went out as a shortened message",
    QUOTED: "went out quoted, whole or in part",
    IN_NOTE: "left out: only this value went out, in the note",
    LEFT_OUT: "left out",
}
"""What became of a source, in words."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of those that disagree, what it says of the field, and what became of it in the turn (a key of `WENT`).

    `evidence` is `None` where it is not there any more, and `value` where nothing is said any more.
    """

    id: str
    evidence: Evidence | None
    pieces: list[Piece]
    value: str | None
    went: str

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
    """One conflict: its record, whether a note on it went out, and all who take part, each beside the first."""

    record: ConflictRecord
    has_note: bool
    sides: list[Side]

    @property
    def field(self) -> str:
        """What they disagree on."""
        return self.record.field_path.removeprefix("$.")


@dataclass(frozen=True, slots=True)
class ContradictionCard:
    """A contradiction for its card: each source that says something else, and the turns in stretches.

    Attributes:
        fields: what they disagree on.
        about: what of: the ids that all of them have.
        sources: of each its name, one piece of it, how many say so, and its values, in the order of the fields.
        shared_turns: when both stood before the model.
        noted_turns: when a note named what they say.
        silent_turns: when both stood there without one.
    """

    fields: list[str]
    about: list[str]
    sources: list[tuple[str, str, int, list[str]]]
    shared_turns: list[tuple[int, int]]
    noted_turns: list[tuple[int, int]]
    silent_turns: list[tuple[int, int]]

    @classmethod
    def of(cls, found: Contradiction, evidences: Mapping[str, Evidence]) -> ContradictionCard:
        by_source: dict[tuple[str, ...], list[str]] = {}
        for name, by_field in found.values.items():
            source = evidences[name].source
            key = (source.name or source.uri, *(by_field.get(each, "") for each in found.fields))
            by_source.setdefault(key, []).append(name)
        return cls(
            [field.removeprefix("$.") for field in found.fields],
            common_ids([evidences[name] for name in found.values]),
            [(source, ids[-1], len(ids), values) for (source, *values), ids in by_source.items()],
            *map(stretches_of, (found.shared_turns, found.noted_turns, found.silent_turns)),
        )


class Disagreements:
    """The conflicts of a session's turns, with the texts of those that disagree.

    Args:
        document: of the session.
        turns: all of it, oldest first.
    """

    def __init__(self, document: SessionDocument, turns: Sequence[TurnRow]) -> None:
        self._document, self._turns, self._evidences = document, turns, document.evidences
        self._sent, self._values = SourcesSent(document, turns), NotedValues(document.evidences)

    def records(self, row: TurnRow) -> list[ConflictRecord]:
        """What sources disagreed on in a turn."""
        report = report_of(row.turn_id, row.report) if row.report.get("conflicts") else None
        return report.conflicts if report is not None else []

    def seen(self, turn: int) -> list[ConflictRecord]:
        """What sources disagree on of which a turn, by its number, met one side, or both of them."""
        records = self.records(self._turns[turn - 1])
        for each in self.contradictions:
            for field in each.fields if turn in each.shared_turns else ():
                names = [name for name in each.values if turn in each.own_turns[name]]
                differ = len({each.values[name].get(field) for name in names}) > 1
                if differ and not any(_is_of(record, field, names) for record in records):
                    record = ConflictRecord(
                        evidence_ids=names, field_path=field, resolution=KEEP_BOTH
                    )
                    records = [*records, record]
        return records

    @cached_property
    def contradictions(self) -> list[Contradiction]:
        """All of the session of which a model saw anything."""
        return contradictions(self._document, self._turns)

    def of(self, record: ConflictRecord, row: TurnRow) -> Disagreement:
        """A conflict of a turn."""
        went = self._sent.of(record, row)
        evidences = [self._evidences.get(name) for name in record.evidence_ids]
        first = next((evidence.content for evidence in evidences if evidence is not None), "")
        sides = []
        for name, evidence in zip(record.evidence_ids, evidences, strict=True):
            text = evidence.content if evidence is not None else ""
            pieces = [("same", text)] if text == first else difference(first, text)
            parts = [p for p in pieces if p[0] != "gone"]
            values = self._values.of(name, [record.field_path])
            sides.append(Side(name, evidence, parts, values[0] if values else None, went[name]))
        return Disagreement(record, has_note(row.report), sides)


def _is_of(record: ConflictRecord, field: str, names: Sequence[str]) -> bool:
    """Whether a record tells of a field and some of these."""
    return record.field_path == field and bool({*record.evidence_ids} & {*names})


__all__ = ["WENT", "ContradictionCard", "Disagreement", "Disagreements", "Side"]
