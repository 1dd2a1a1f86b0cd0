"""What stands masked in a session's store: each placeholder, and the turns in which its text went out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ce_engine.audit.places.quoted_words import QuotedWords
from ce_engine.audit.places.whereabouts import (
    evidence_whereabouts,
    stretches_of,
    turns_sent,
    whereabouts,
)
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_engine.text.redaction.placeholders import PLACEHOLDER


@dataclass(frozen=True, slots=True)
class Mask:
    """A placeholder of a session, such as `[PHONE_3]`.

    Attributes:
        name: as it stands in the store.
        sent: the turns, from 1, in stretches, in which a text that has it went out, whole or with the sentences that do.
        said: those whose answer has it.
    """

    name: str
    sent: Sequence[tuple[int, int]]
    said: Sequence[tuple[int, int]]


def masked_texts(document: SessionDocument, names: Collection[str]) -> dict[str, list[str]]:
    """The ids of the messages and evidence that have each of the placeholders, both in the session's order.

    Args:
        document: of the session.
        names: the placeholders that the session has given; what else stands in brackets is somebody's own word.
    """
    texts = [(m.message_id, f"{m.content} {_arguments(m)}") for m in document.session.messages]
    texts += [(name, piece.content) for name, piece in document.evidences.items()]
    ids_of: dict[str, list[str]] = {}
    for name, text in texts:
        for mask in dict.fromkeys(PLACEHOLDER.findall(text)) if name else ():
            if mask in names:
                ids_of.setdefault(mask, []).append(name or "")
    return ids_of


def masks(
    document: SessionDocument, turns: Sequence[TurnRow], names: Collection[str], most: int
) -> tuple[list[Mask], int]:
    """The first placeholders of a session, and how many more there are.

    Args:
        document: of the session.
        turns: all of it, oldest first.
        names: the placeholders that it has given.
        most: how many are told of.
    """
    ids_of = masked_texts(document, names)
    chosen = dict([*ids_of.items()][:most])
    ids = {name for names in chosen.values() for name in names}
    answers = {row.answer_message_id: n for n, row in enumerate(turns, start=1)}
    in_order = [m.message_id for m in document.session.messages if m.message_id in ids]
    where = evidence_whereabouts(ids, document, turns) | whereabouts(
        filter(None, in_order), document, turns
    )
    quoted, found = QuotedWords(document, turns), list[Mask]()
    for mask, text_ids in chosen.items():
        own = {name: where[name] for name in text_ids if name in where}
        sent = turns_sent(quoted.tell_apart(own, mask).values())
        said = {answers[name] for name in text_ids if name in answers}
        found.append(Mask(mask, sent, stretches_of(said)))
    return found, len(ids_of) - len(chosen)


def _arguments(message: Message) -> str:
    return " ".join(str(call.args) for call in message.tool_calls or ())


__all__ = ["Mask", "masked_texts", "masks"]
