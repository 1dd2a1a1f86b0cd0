"""Sources of a session that contradict each other: when both stood before the model, and when it was told (A-18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ce_engine.audit.noted_sources import noted_fields
from ce_engine.audit.places.whereabouts import THERE, Whereabouts, evidence_whereabouts
from ce_engine.prepare.choose.conflict import disputed_values
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.rows import TurnRow


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Pieces of evidence that say different things of the same.

    Attributes:
        values: what each says, by its id and by the path of the field.
        own_turns: the turns, from 1, in which each stood before the model, whole or in part, by its id.
        shared_turns: the turns in which two of them that differ did.
        noted_turns: those in which a note named what they say.
    """

    values: Mapping[str, Mapping[str, str]]
    own_turns: Mapping[str, frozenset[int]]
    shared_turns: Sequence[int]
    noted_turns: Sequence[int]

    @property
    def fields(self) -> list[str]:
        """What they disagree on."""
        return list(dict.fromkeys(field for by_field in self.values.values() for field in by_field))

    @property
    def silent_turns(self) -> list[int]:
        """The turns in which both stood there without a note."""
        noted = frozenset(self.noted_turns)
        return [turn for turn in self.shared_turns if turn not in noted]


def contradictions(document: SessionDocument, turns: Sequence[TurnRow]) -> list[Contradiction]:
    """The contradictions of a session that a model saw anything of, those that it saw in most turns first.

    Args:
        document: the session.
        turns: all of it, oldest first.
    """
    by_ids = _by_ids(document)
    ids = {name for names in by_ids for name in names}
    where = evidence_whereabouts(ids, document, turns) if ids else {}
    shown = {name: _turns_of(where[name]) for name in ids if name in where}
    notes = _notes(turns) if ids else []
    found = (_contradiction(fields_of, shown, notes) for fields_of in by_ids.values())
    seen = [each for each in found if each.shared_turns or each.noted_turns]
    return sorted(seen, key=lambda each: -len({*each.shared_turns, *each.noted_turns}))


def _by_ids(document: SessionDocument) -> dict[frozenset[str], dict[str, dict[str, str]]]:
    """By the ids of those that disagree, what each says of each field; of a field only the largest such group."""
    by_field: dict[str, list[dict[str, str]]] = {}
    for field, values in disputed_values([*document.evidences.values()]):
        groups = by_field.setdefault(field, [])
        if not any(values.keys() <= other.keys() for other in groups):
            groups[:] = [other for other in groups if not other.keys() <= values.keys()]
            groups.append(values)
    by_ids: dict[frozenset[str], dict[str, dict[str, str]]] = {}
    for field, groups in by_field.items():
        for values in groups:
            fields_of = by_ids.setdefault(frozenset(values), {name: {} for name in values})
            for name, value in values.items():
                fields_of[name][field] = value
    return by_ids


def _contradiction(
    values: Mapping[str, Mapping[str, str]],
    shown: Mapping[str, frozenset[int]],
    notes: Sequence[tuple[int, Mapping[str, Sequence[str]]]],
) -> Contradiction:
    both = set[int]()
    for field in {field for by_field in values.values() for field in by_field}:
        # Those that say the same stand together; of two values each is in the turns of its own.
        by_value: dict[str | None, set[int]] = {}
        for name, by_field in values.items():
            by_value.setdefault(by_field.get(field), set()).update(shown.get(name, ()))
        seen = set[int]()
        for turns in by_value.values():
            both |= seen & turns
            seen |= turns
    own = {name: shown.get(name, frozenset()) for name in values}
    noted_turns = [turn for turn, fields_of in notes if len(fields_of.keys() & values.keys()) > 1]
    return Contradiction(values, own, sorted(both), noted_turns)


def _turns_of(where: Whereabouts) -> frozenset[int]:
    """The turns in which something stood before the model."""
    return frozenset(where.turns_as(THERE))


def _notes(turns: Sequence[TurnRow]) -> list[tuple[int, Mapping[str, Sequence[str]]]]:
    """The turns that had a note, each with the fields that it had values of, by the id of their evidence."""
    fields = ((number, noted_fields(row.report)) for number, row in enumerate(turns, start=1))
    return [(number, fields_of) for number, fields_of in fields if fields_of]


__all__ = ["Contradiction", "contradictions"]
