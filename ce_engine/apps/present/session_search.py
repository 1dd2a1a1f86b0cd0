"""Where a text stands in a session: in messages and evidence, with the turns that it was a part of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from unicodedata import normalize

from ce_engine.apps.present.links import arguments
from ce_engine.apps.present.rules_out import RuleOut
from ce_engine.schema.document import Evidence, Message, SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.rows import TurnRow
from ce_engine.text.written_numbers import WrittenNumber, written_numbers


MOST = 50
"""Hits that are shown."""

TITLES = ("title", "source", "file_name", "file_path", "name")
"""Keys of metadata that have a document's name."""

AROUND = 80
"""Characters that are shown on each side of a hit."""

MOST_EXCERPTS = 8
"""Excerpts of a message that are shown: its words, and each of its tool calls."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The text as it is written in one place, and what stands before and behind it."""

    before: str
    text: str
    after: str


@dataclass(frozen=True, slots=True)
class Hit:
    """One message, rule or piece of evidence in which a text stands.

    Attributes:
        kind: `message`, `evidence` or `rule`.
        id: its id.
        speaker: its role and author, or its source.
        excerpts: where the text stands: of a message in its words, and in each of the tool calls that have it.
        more: excerpts that are not shown.
        turn: the turn whose answer it is, that answered it, asked for it or recorded it; `None` where none did.
        is_whole: whether it stands there as a word, and not inside a longer one.
    """

    kind: str
    id: str
    speaker: str
    excerpts: Sequence[Excerpt]
    more: int = 0
    turn: int | None = None
    is_whole: bool = True


@dataclass(slots=True)
class Hits:
    """What was found, whole words first, else in the session's order, and how many more there are."""

    hits: list[Hit] = field(default_factory=list)
    more: int = 0

    @classmethod
    def of(cls, hits: Sequence[Hit]) -> Hits:
        ordered = sorted(hits, key=lambda hit: not hit.is_whole)
        return cls(ordered[:MOST], max(0, len(ordered) - MOST))


def search(
    document: SessionDocument, turns: Sequence[TurnRow], text: str, rules: Sequence[RuleOut] = ()
) -> Hits:
    """Look for a text in rules that went out, all messages, the tools that they ask for, and evidence.

    Whatever the case of its letters is, and a number or a date however it is written.
    """
    needle, hits = _Needle.of(text), list[Hit]()
    first = _first_turns(document, turns)
    for rule in rules:
        # Found is what went out: no text of a rule that was changed after its last call.
        for content, numbers in rule.turns_by_text.items():
            if (place := needle.best((content,))) is not None:
                turn = {rule.id: numbers[0]}
                hits.append(_hit("rule", rule.id, "", [place], turn))
    for message in document.session.messages:
        if message.message_id and (places := _places(message, needle)):
            hits.append(_hit("message", message.message_id, origin(message), places, first))
    for evidence in document.evidences.values():
        source = evidence.source
        names = (source.name, source.uri, *_titles(evidence.metadata))
        if (place := needle.best((evidence.content, *filter(None, names)))) is not None:
            hits.append(_hit("evidence", evidence.evidence_id, origin(evidence), [place], first))
    return Hits.of(hits)


def origin(item: Message | Evidence) -> str:
    """Who said a message, or what evidence is from: a name, or the value of a vocabulary."""
    if isinstance(item, Message):
        return item.author.id if item.author else item.role.value
    return item.source.name or item.source.uri or item.source.kind.value


def _titles(metadata: Mapping[str, object]) -> Iterator[str]:
    """What a document is called by its metadata, as frameworks' loaders write it."""
    yield from (text for name in TITLES if isinstance(text := metadata.get(name), str))


def _first_turns(document: SessionDocument, turns: Sequence[TurnRow]) -> dict[str, int]:
    """The turns of messages and evidence, by their ids: that answered with it, answered it, asked for it or recorded it.

    A tool's result is of the turn whose answer asked for it, as its own page has it, whenever it was recorded; a model's answer
    is of its own turn.
    """
    first = _asking_turns(document, turns)
    numbers = {row.turn_id: number for number, row in enumerate(turns, start=1)}
    for number, row in enumerate(turns, start=1):
        recorded = row.report.get("new_evidence_ids", ())
        for name in (row.answer_message_id, row.tip_message_id, *recorded):
            if name:
                first.setdefault(name, number)
    for name, evidence in document.evidences.items():
        if turn := numbers.get(str(evidence.metadata.get("turn_id"))):
            first.setdefault(name, turn)
    for message in document.session.messages:
        for ref in (message.refs or ()) if message.role is Role.TOOL else ():
            if message.message_id and ref.evidence_id in first:
                first.setdefault(message.message_id, first[ref.evidence_id])
    return first


def _asking_turns(document: SessionDocument, turns: Sequence[TurnRow]) -> dict[str, int]:
    """The turns whose answers asked for tools, by the ids of the results: of their evidence and of their messages."""
    answers: dict[str | None, int] = {}
    for number, row in enumerate(turns, start=1):
        answers.setdefault(row.answer_message_id, number)
    asked = {
        name: turn
        for name, evidence in document.evidences.items()
        if (turn := answers.get((evidence.links.tool_call_id or "").rpartition(":")[0]))
    }
    return asked | {
        message.message_id: turn
        for message in document.session.messages
        if message.role is Role.TOOL and message.message_id and message.parent_id
        if (turn := answers.get(message.parent_id))
    }


class Place(NamedTuple):
    """A text, where in it something stands, how long that is there, and whether it is a word."""

    text: str
    at: int
    length: int
    is_word: bool


@dataclass(frozen=True, slots=True)
class _Needle:
    """What is looked for: a text, whatever the case of its letters, and a number or a date however it is written."""

    text: str
    number: WrittenNumber | None = None
    beginning: re.Pattern[str] | None = None

    @classmethod
    def of(cls, text: str) -> _Needle:
        folded, written = text.casefold(), written_numbers(text)
        if len(written) != 1 or written[0].text != text.strip() or written[0].digits < 2:
            return cls(folded)
        if written[0].is_mask:  # it is written in one way
            return cls(folded)
        # Whichever way an amount is written, its first two digits stand first.
        first = re.match(r"0*(\d)[.,]?(\d)", written[0].text) if not written[0].parts else None
        beginning = re.compile(rf"{first[1]}[ ,.'’]?{first[2]}") if first else None
        return cls(folded, written[0], beginning)

    def best(self, texts: Iterable[str]) -> Place | None:
        """The text in which it stands, where, and whether as a word: such a place before any other."""
        first_place: Place | None = None
        for text in texts:
            folded = text.casefold()
            at = folded.find(self.text)
            if at >= 0 and first_place is None:
                first_place = Place(text, at, len(self.text), is_word=False)
            while at >= 0:
                if not (_goes_on(folded, at) or _goes_on(folded, at + len(self.text))):
                    return Place(text, at, len(self.text), is_word=True)
                at = folded.find(self.text, at + 1)
            if (place := self._written_otherwise(text)) is not None:
                return place
        return first_place

    def _written_otherwise(self, text: str) -> Place | None:
        number = self.number
        if number is None:
            return None
        plain = text if text.isascii() else normalize("NFKC", text)
        if self.beginning is not None and not self.beginning.search(plain):
            return None
        alike = next((n for n in written_numbers(plain) if n.forms & number.forms), None)
        at = plain.find(alike.text) if alike is not None else -1
        return None if alike is None or at < 0 else Place(plain, at, len(alike.text), is_word=True)


def _goes_on(text: str, at: int) -> bool:
    """Whether a word goes on over a place; scripts without cases have no spaces between words."""
    return 0 < at < len(text) and all(map(_is_of_a_word, text[at - 1 : at + 1]))


def _is_of_a_word(letter: str) -> bool:
    return letter.isdigit() or letter.lower() != letter.upper()


def _places(message: Message, needle: _Needle) -> list[Place]:
    """Where something stands in what a message says and in each tool call that it asks for; else in whose result it is."""
    calls = (f"{call.name}({arguments(call.args)})" for call in message.tool_calls or ())
    texts = [message.content, *calls]
    places = [place for text in texts if (place := needle.best((text,))) is not None]
    if not places and message.role is Role.TOOL and message.author is not None:
        place = needle.best((message.author.id,))
        return [place] if place is not None else []
    return places


def _hit(
    kind: str,
    name: str,
    origin: str,
    places: Sequence[Place],
    first: Mapping[str, int],
) -> Hit:
    excerpts = [*map(_excerpt, places[:MOST_EXCERPTS])]
    is_whole = any(place.is_word for place in places)
    more = len(places) - len(excerpts)
    return Hit(kind, name, origin, excerpts, more, first.get(name), is_whole)


def _excerpt(place: Place) -> Excerpt:
    content, at, length, _ = place
    # Where folding changes the length of what stands before, the place is a little off.
    begin, end = max(0, at - AROUND), at + length
    before = ("…" if begin else "") + content[begin:at]
    after = content[end : end + AROUND] + ("…" if len(content) > end + AROUND else "")
    return Excerpt(before, content[at:end], after)
