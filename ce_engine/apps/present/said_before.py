"""What people said that an answer has in its words, beyond its own question: messages are no evidence, and no link leads to them."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.audit.places.whereabouts import THERE, fate_in, whereabouts
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.rows import TurnRow
from ce_engine.text.overlap import Words, quotes


MOST = 12
"""Messages that are named, the newest."""


def said_before(
    answer: Message, document: SessionDocument, turns: Sequence[TurnRow]
) -> list[Message]:
    """The messages of people that went out in the answer's turn, as they are or quoted, and that it has words of.

    Args:
        answer: of the session.
        document: of the session.
        turns: all of it, oldest first.
    """
    at = next(
        (n for n, row in enumerate(turns, 1) if row.answer_message_id == answer.message_id), 0
    )
    messages = document.session.messages
    if not at or not answer.content:
        return []
    tip = turns[at - 1].tip_message_id
    earlier = messages[: next(n for n, m in enumerate(messages) if m is answer)]
    question = _question(earlier, tip)
    words, query = Words.of(answer.content), Words.of(question.content if question else "")
    hits = [
        message
        for message in earlier
        if message.role is Role.USER
        and message is not question
        and quotes(words, Words.of(message.content), query)
    ]
    where = whereabouts([m.message_id or "" for m in hits], document, turns, turns[at - 1].lane)
    went = {name for name, history in where.items() if fate_in(history, at) in THERE}
    return [message for message in hits if message.message_id in went][-MOST:]


def _question(earlier: Sequence[Message], tip: str | None) -> Message | None:
    """What the turn answers: the newest message of a person up to what stood last in its input."""
    places = {message.message_id: n for n, message in enumerate(earlier)}
    upto = earlier[: places.get(tip, len(earlier) - 1) + 1]
    return next((message for message in reversed(upto) if message.role is Role.USER), None)


__all__ = ["said_before"]
