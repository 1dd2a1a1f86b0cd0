"""Where a text stands in a session: in messages and evidence, with the turns that it was a part of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ce_engine.apps.present.links import arguments
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.rows import TurnRow


MOST = 50
"""Hits that are shown."""

AROUND = 80
"""Characters that are shown on each side of a hit."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where a text stands.

    Attributes:
        kind: `message` or `evidence`.
        id: its id.
        who: its role and author, or its source.
        before: what stands before the text.
        text: the text, as it is written there.
        after: what stands behind it.
        turn: the turn whose answer it is, or that answered it; `None` where none did.
    """

    kind: str
    id: str
    who: str
    before: str
    text: str
    after: str
    turn: int | None = None


@dataclass(slots=True)
class Hits:
    """What was found, in the session's order, and how many more there are."""

    hits: list[Hit] = field(default_factory=list)
    more: int = 0

    def add(self, hit: Hit) -> None:
        if len(self.hits) < MOST:
            self.hits.append(hit)
        else:
            self.more += 1


def search(document: SessionDocument, turns: Sequence[TurnRow], text: str) -> Hits:
    """Look for a text in all messages, the tools that they ask for, and evidence, whatever the case of its letters."""
    wanted, found = text.casefold(), Hits()
    first: dict[str, int] = {}
    for number, row in enumerate(turns, start=1):
        for name in (row.answer_message_id, row.tip_message_id):
            if name:
                first.setdefault(name, number)
    for message in document.session.messages:
        for said in _texts(message):
            at = said.casefold().find(wanted)
            if at >= 0 and message.message_id:
                who = message.author.id if message.author else message.role.value
                turn = first.get(message.message_id)
                found.add(_hit("message", message.message_id, who, said, at, len(text), turn))
                break
    for evidence in document.evidences.values():
        source = evidence.source
        who = source.name or source.uri or source.kind.value
        for said in (evidence.content, source.name):
            at = said.casefold().find(wanted)
            if at >= 0:
                found.add(_hit("evidence", evidence.evidence_id, who, said, at, len(text), None))
                break
    return found


def _texts(message: Message) -> Iterator[str]:
    """What a message says, the tools that it asks for, and whose result it is."""
    yield message.content
    yield from (f"{call.name}({arguments(call.args)})" for call in message.tool_calls or ())
    if message.role is Role.TOOL and message.author is not None:
        yield message.author.id


def _hit(
    kind: str, name: str, who: str, content: str, at: int, length: int, turn: int | None
) -> Hit:
    # Where folding changes the length of what stands before, the place is a little off.
    begin, end = max(0, at - AROUND), at + length
    before = ("…" if begin else "") + content[begin:at]
    after = content[end : end + AROUND] + ("…" if len(content) > end + AROUND else "")
    return Hit(kind, name, who, before, content[at:end], after, turn)
