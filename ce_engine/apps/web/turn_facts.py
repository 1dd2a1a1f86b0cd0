"""What of a turn is told by its record alone: its answer, what changed, and results that a later one has overtaken."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ce_engine.apps.present.language import Say
from ce_engine.apps.present.links import Links
from ce_engine.apps.present.rules_out import RULE_CHANGES, RuleOut, rule_changes, texts_in
from ce_engine.apps.present.session_search import origin
from ce_engine.apps.present.turn_changes import TITLES, turn_changes
from ce_engine.apps.present.turn_view import Row
from ce_engine.apps.present.turns import BROKEN
from ce_engine.apps.present.vocabulary import speaker
from ce_engine.apps.web.stored_turn import StoredTurn
from ce_engine.audit.input_texts import InputText, InputTexts
from ce_engine.audit.noted_sources import note_lines
from ce_engine.audit.number_places import NumberPlace, number_places
from ce_engine.audit.past_session import before_in_lane
from ce_engine.audit.stale_results import NewerResult, stale_results
from ce_engine.audit.unsupported_numbers import unsupported_numbers
from ce_engine.schema.document import Message


NEVER_STORED = "System messages are never stored: what it says is not known."

MOST_CHANGES = 12
"""Messages of one kind of change that are named."""


def turn_facts(
    record: StoredTurn, rows: Sequence[Row], rules: Sequence[RuleOut], links: Links, say: Say
) -> dict[str, Any]:
    """What is told by the turn's record alone: what changed, the answer, and results that a later one has overtaken."""
    return {
        **_changes(record, rows, rules, say),
        **_answer(record, rules, links, say),
        "stale": _stale(record),
    }


def _answer(record: StoredTurn, rules: Sequence[RuleOut], links: Links, say: Say) -> dict[str, Any]:
    """What the model said, the tools that it asked for, and its numbers that nothing had that went out."""
    name, messages = record.row.answer_message_id, record.document.session.messages
    message = next((m for m in messages if name and m.message_id == name), None)
    if message is None:
        return {"answer": None}
    inputs = InputTexts(record.document, record.turns, record.fates, partial(texts_in, rules))
    return {
        "answer": message,
        "answer_calls": links.render_calls(message, say),
        "unsupported": unsupported_numbers(message, record.at, inputs),
        "number_places": _number_places(message, record, inputs, say),
    }


def _number_places(
    answer: Message, record: StoredTurn, inputs: InputTexts, say: Say
) -> list[tuple[NumberPlace, str]]:
    """Where each number of an answer stands, and whose that is, in words."""
    messages = {message.message_id: message for message in record.document.session.messages}

    def source(piece: InputText) -> str:
        item = record.document.evidences.get(piece.id) or messages.get(piece.id)
        return speaker(origin(item), say) if item else ""

    return [(place, source(place.source)) for place in number_places(answer, record.at, inputs)]


def _stale(record: StoredTurn) -> dict[str, NewerResult]:
    """The results that stood there though a later one of the same call said something else, by their ids."""
    return stale_results(record.document, record.turns, record.at, record.fates(record.at))


def _changes(
    record: StoredTurn, rows: Sequence[Row], rules: Sequence[RuleOut], say: Say
) -> dict[str, Any]:
    """What of the session's messages went another way than in the lane's turn before, and which of them are rows."""
    before = before_in_lane(record.turns, record.at)
    if before is None:
        return {"changes_since": None, "turn_changes": [], "text_changes": []}
    changes = turn_changes(record.fates(record.at), record.fates(before))
    evidences = record.document.evidences
    now, then = (note_lines(record.turns[at].report, evidences) for at in (record.at, before))
    lost = say("The text is not there any more.")
    broken_by = record.report.prefix_broken_by if record.report else ""
    text_changes = (
        (say(BROKEN["system"]), [say(NEVER_STORED)] if broken_by == "system" else []),
        *(
            (say(RULE_CHANGES[kind]), [text or lost for text in texts])
            for kind, texts in rule_changes(rules, record.at + 1, before + 1).items()
        ),
        (say("told now: sources disagree"), [line for line in now if line not in then]),
        (say("no more told: sources disagree"), [line for line in then if line not in now]),
    )
    return {
        "text_changes": [(title, lines) for title, lines in text_changes if lines],
        "changes_since": before + 1,
        "turn_changes": [
            (say(TITLES[change.kind]), change.ids[:MOST_CHANGES], len(change.ids))
            for change in changes
        ],
        "row_ids": {row.message.message_id for row in rows if row.message},
    }


__all__ = ["turn_facts"]
