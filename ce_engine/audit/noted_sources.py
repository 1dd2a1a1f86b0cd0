"""Sources that disagree: the note that names the value of each, and what else of them went out in a turn (A-18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from ce_engine.audit.places.message_places import (
    LEFT_OUT,
    QUOTED,
    SENT,
    SHORTENED,
    MessagePlaces,
)
from ce_engine.prepare.choose.conflict import KEEP_BOTH, NOTE_ID, common_ids, value_of
from ce_engine.schema.document import Evidence, SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.report import ConflictRecord
from ce_engine.schema.rows import TurnRow


IN_NOTE = "in_note"
"""What becomes of evidence of which only a value went out, in the note."""

_MOST_LAST = (LEFT_OUT, IN_NOTE, QUOTED, SHORTENED, SENT)


def has_note(report: Mapping[str, Any]) -> bool:
    """Whether the note went out in a turn, by its stored report."""
    return any(
        decision["block_id"] == NOTE_ID and decision["action"] != "dropped"
        for decision in report.get("prune_decisions", ())
    )


def noted_records(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The conflicts that the note of a turn names, as they are stored; none where no note went out."""
    records = report.get("conflicts") or () if has_note(report) else ()
    return [record for record in records if record["resolution"] == KEEP_BOTH]


def noted_fields(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """The fields that the note of a turn has values of, by the id of their evidence; none where no note went out."""
    fields_of: dict[str, list[str]] = {}
    for record in noted_records(report):
        for name in record["evidence_ids"]:
            fields_of.setdefault(name, []).append(record["field_path"])
    return fields_of


class NotedValues:
    """What notes say of evidence, each value looked up once."""

    def __init__(self, evidences: Mapping[str, Evidence]) -> None:
        self._evidences = evidences
        self._known: dict[tuple[str, str], str | None] = {}

    def of(self, name: str, fields: Sequence[str]) -> list[str]:
        """The values that evidence has in these fields, as far as it is there still."""
        return [
            value for field_path in fields if (value := self._value(name, field_path)) is not None
        ]

    def _value(self, name: str, field_path: str) -> str | None:
        key, evidence = (name, field_path), self._evidences.get(name)
        if key not in self._known:
            value = value_of(evidence, field_path) if evidence is not None else None
            self._known[key] = value
        return self._known[key]


def note_lines(report: Mapping[str, Any], evidences: Mapping[str, Evidence]) -> list[str]:
    """What the note of a turn says, a line a field, as far as the evidence is there still; empty without one.

    Args:
        report: of the turn, as it is stored.
        evidences: of the session, by id.
    """
    values, lines = NotedValues(evidences), list[str]()
    for record in noted_records(report):
        there = [evidences[name] for name in record["evidence_ids"] if name in evidences]
        said = [
            f"{value} ({each.source.name or each.source.uri or each.source.kind.value})"
            for each in there
            for value in values.of(each.evidence_id, [record["field_path"]])
        ]
        if not said:
            continue
        field, ids = record["field_path"].removeprefix("$."), ", ".join(common_ids(there))
        about = f"{field} ({ids})" if ids else field
        lines.append(f"{about}: {'; '.join(dict.fromkeys(said))}")
    return lines


class SourcesSent:
    """What became of sources that disagree, turn by turn.

    Args:
        document: of the session.
        turns: all of it, oldest first.
    """

    def __init__(self, document: SessionDocument, turns: Sequence[TurnRow]) -> None:
        self._document, self._turns = document, turns
        self._stored_as = {
            message.message_id: [ref.evidence_id for ref in message.refs or ()]
            for message in document.session.messages
            if message.message_id and message.role is Role.TOOL and message.refs
        }

    def of(self, record: ConflictRecord, row: TurnRow) -> dict[str, str]:
        """What became of each of them in a turn, by its id: a fate of messages, or `IN_NOTE`."""
        is_noted = record.resolution == KEEP_BOTH and has_note(row.report)
        fates_of = {name: {IN_NOTE if is_noted else LEFT_OUT} for name in record.evidence_ids}
        for name in fates_of.keys() & set(row.report.get("injected_evidence_ids", ())):
            fates_of[name].add(QUOTED)
        turn_places = self._places.read_turn(row)
        for begin, end, fate in self._places.pieces(*turn_places) if turn_places else ():
            for message_id in self._places.ids[begin:end] if fate is not None else ():
                for name in fates_of.keys() & set(self._stored_as[message_id]):
                    fates_of[name].add(str(fate))
        return {name: max(fates, key=_MOST_LAST.index) for name, fates in fates_of.items()}

    @cached_property
    def _places(self) -> MessagePlaces:
        """Where the results of tools stand in the session."""
        return MessagePlaces(self._stored_as, self._document, self._turns)


__all__ = ["IN_NOTE", "NotedValues", "SourcesSent", "has_note", "note_lines", "noted_fields"]
