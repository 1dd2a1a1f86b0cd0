"""A piece on its way to the store: what was taken out of it, its plain form, and refs to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from ce_engine.schema.call import Answer
from ce_engine.schema.document import Message, Ref


LONG_TEXT = 65_536
"""Characters of all texts of one call together from which on they are worked on beside the loop."""


@dataclass(slots=True)
class RedactionTally:
    """What redaction took out of one piece that is stored under `id`: a message, evidence, arguments."""

    id: str
    rules: dict[str, None] = field(default_factory=dict)
    count: int = 0
    pointed: bool = False
    """Whether something of it is not stored, only that it was there (A-30)."""

    def hit(self, rules: Sequence[str], count: int) -> None:
        self.rules |= dict.fromkeys(rules)
        self.count += count


def text_length(value: Any, most: int) -> int:
    """Characters of the texts in nested data and records, each container counting as many as it has places.

    What is beyond `most` is not looked at: the answer is then more than `most`.
    """
    total, todo = 0, [value]
    while todo and total <= most:
        item = todo.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, Mapping):
            total += len(item)
            todo += [*item.keys(), *item.values()] if total <= most else ()
        elif isinstance(item, list | tuple):
            total += len(item)
            todo += item if total <= most else ()
        elif (values := _of_record(item)) is not None:
            total += len(values)
            todo += values
    return total


def _of_record(item: Any) -> list[Any] | None:
    """The values of a record, as they are held; `None` for what is none."""
    if isinstance(item, BaseModel):
        return [*vars(item).values()]
    if is_dataclass(item) and not isinstance(item, type):
        return [getattr(item, record_field.name, None) for record_field in fields(item)]
    return None


def long_parts(message: Message) -> Iterator[Any]:
    """What may be long in a message."""
    yield message.content
    yield message.tool_call_id or ""
    yield from message.tool_calls or ()
    if message.author is not None:
        yield message.author.id


def answer_texts(answer: Answer) -> Iterator[Any]:
    """What may be long in an answer."""
    yield from long_parts(answer.message)
    yield from (answer.host_id or "", answer.model, answer.provider, answer.finish_reason)
    yield from answer.refs or ()
    yield from answer.attachments


def is_long(texts: Iterable[Any], more: int = 0) -> bool:
    """Whether texts, plain data and records have more than `LONG_TEXT` characters, with `more` beside them."""
    total = more
    if total > LONG_TEXT:
        return True
    for value in texts:
        total += len(value) if isinstance(value, str) else text_length(value, LONG_TEXT - total)
        if total > LONG_TEXT:
            return True
    return False


def encodable(text: str) -> str:
    """The text without lone surrogates: no encoding of a store can hold them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def refs(evidence_ids: list[str]) -> list[Ref] | None:
    """Refs to whole pieces of evidence, each once; `None` for none."""
    return [Ref(evidence_id=item) for item in dict.fromkeys(evidence_ids)] or None
