"""Which answers may say in other words what deleted evidence said (A-30)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ce_engine.schema.document import Message
from ce_engine.schema.enums import Role
from ce_engine.schema.message_forest import MessageForest
from ce_engine.schema.rows import MessageRow, TurnRow, archive_of
from ce_engine.sessions.view import entry_of
from ce_engine.turns.report.archive import expanded


def derived_answers(
    rows: Sequence[MessageRow], turns: Iterable[TurnRow], evidence_id: str, holders: Sequence[str]
) -> list[str]:
    """The answers, in order, whose model was shown the evidence or a message that had its text.

    What a call was shown says its archive. Of a call that has none, whatever came later was shown.
    """
    log = MessageForest()
    for row in rows:
        log.add(entry_of(log, row))
    places = {log.by_message_id(name) for name in holders} - {None}
    first = min((n for n in places if n is not None), default=len(rows))
    answer_ids: set[str] = set()
    for turn in turns:
        answer = turn.answer_message_id
        if answer is None:
            continue
        line = archive_of(turn.report).get("line")
        if line is None:
            n = log.by_message_id(answer)
            if n is not None and n > first:
                answer_ids.add(answer)
        elif not places.isdisjoint(expanded(log, line)):
            answer_ids.add(answer)
    return [
        row.message.message_id
        for row in rows
        if row.message.message_id is not None
        and row.message.role is Role.ASSISTANT
        and row.message.content
        and (row.message.message_id in answer_ids or _refers(row.message, evidence_id))
    ]


def _refers(message: Message, evidence_id: str) -> bool:
    return any(ref.evidence_id == evidence_id for ref in message.refs or ())
