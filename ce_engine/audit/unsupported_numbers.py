"""The numbers of an answer that stand in nothing that the model had: worked out, remembered, or made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ce_engine.audit.noted_sources import NotedValues, noted_fields
from ce_engine.audit.places.quoted_pieces import PinsAfter, quoted_pieces, quoted_sentences
from ce_engine.audit.places.whereabouts import LEFT
from ce_engine.prepare.compose.render import some_of
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_engine.text.redaction.placeholders import PLACEHOLDER
from ce_engine.text.relevance.terms import term_set, word_set
from ce_engine.text.written_numbers import WrittenNumber, number_forms, written_numbers


LEAST_DIGITS = 2
"""Of a number that is looked for: others stand anywhere."""

MOST_NUMBERS = 40
"""Numbers of an answer that are looked for, the first."""

MOST_LOOKED_AT = 1000
"""Messages in which a number is looked for that did not go out, the newest."""


MOST_CHARS = 20_000
"""Of such a message that are looked at."""

MOST_PLACES = 12
"""Messages that have a number, and places in one, that are compared, the newest messages."""


@dataclass(frozen=True, slots=True)
class UnsupportedNumber:
    """A number, a date or a code of an answer that stands in nothing stored that went out in its turn.

    Attributes:
        text: as the answer has it.
        message_id: an earlier message that has it, and did not go out; `""` of none. Of several the one in which most of the
            words beside it are those of the answer, of equals the newest: fourteen days are not fourteen o'clock.
        may_be_hidden: what went out is stored masked in part, or went out summed up: it may have stood in that.
    """

    text: str
    message_id: str = ""
    may_be_hidden: bool = False


def unsupported_numbers(
    answer: Message,
    document: SessionDocument,
    turns: Sequence[TurnRow],
    at: int,
    fates: Mapping[str, str],
    rules: Iterable[str] = (),
) -> list[UnsupportedNumber]:
    """The numbers of two digits or more, in their order, each once.

    The app's system messages are never stored: what stands in them counts as nothing. A text that went out shortened counts
    whole, and one that was quoted in part with the sentences that were.

    Args:
        answer: of the turn.
        document: of the session.
        turns: all of it, oldest first.
        at: the turn's place among them.
        fates: what became of each message in it, by id (`recorded_fates`).
        rules: texts of rules that went out in it.
    """
    if not fates:
        return []  # nothing is stored of what it had
    missing = _numbers(answer.content)
    messages = document.session.messages
    earlier = messages[: next((n for n, m in enumerate(messages) if m is answer), len(messages))]
    shown = {name for name, fate in fates.items() if fate not in LEFT}
    is_hidden = bool((turns[at].report.get("extra", {}).get("replay") or {}).get("summaries"))
    own = (_text(message) for message in earlier if message.message_id in shown)
    for text in (*own, *_put_in(document, turns, at), *rules):
        is_hidden |= PLACEHOLDER.search(text) is not None
        missing = _without(missing, text)
        if not missing:
            return []
    found = {number.text: UnsupportedNumber(number.text, "", is_hidden) for number in missing}
    others = [m for m in reversed(earlier[-MOST_LOOKED_AT:]) if m.message_id not in shown]
    for text, message in _likeliest(missing, others).items():
        found[text] = replace(found[text], message_id=message.message_id or "")
    return [*found.values()]


def _likeliest(
    numbers: Sequence[WrittenNumber], newest_first: Iterable[Message]
) -> dict[str, Message]:
    """Of each number the message that is most likely to speak of the same, by the words beside it."""
    own_terms = {number.text: term_set(word_set(number.around)) for number in numbers}
    likeliest: dict[str, tuple[int, Message]] = {}
    missing, seen = [*numbers], Counter[str]()
    for message in newest_first:
        text = _text(message)[:MOST_CHARS]
        forms = number_forms(text)
        here = [number for number in missing if number.stands_in(forms)]
        written = written_numbers(text) if here else []
        for number in here:
            alike = (each.around for each in written if number.forms & each.forms)
            terms = term_set(word_set(" ".join(islice(alike, MOST_PLACES))))
            shared = len(terms & own_terms[number.text])
            if number.text not in likeliest or shared > likeliest[number.text][0]:
                likeliest[number.text] = shared, message
        seen.update(number.text for number in here)
        missing = [number for number in missing if seen[number.text] < MOST_PLACES]
        if not missing:
            break
    return {text: message for text, (_, message) in likeliest.items()}


def _numbers(text: str) -> list[WrittenNumber]:
    """The numbers that are looked for, each once."""
    by_text = {each.text: each for each in written_numbers(text) if each.digits >= LEAST_DIGITS}
    return [*by_text.values()][:MOST_NUMBERS]


def _without(numbers: Sequence[WrittenNumber], text: str) -> list[WrittenNumber]:
    """Those that a text has not."""
    forms = number_forms(text)
    return [number for number in numbers if not number.stands_in(forms)]


def _put_in(document: SessionDocument, turns: Sequence[TurnRow], at: int) -> Iterator[str]:
    """What stood quoted in a turn, of texts in part what of them did; and what a note said of sources that disagree."""
    row, after = turns[at], PinsAfter(turns).of(turns[at])
    messages = {message.message_id: message for message in document.session.messages}
    sentences = quoted_sentences(row, after)
    for name, is_part in quoted_pieces(row, after).items():
        message, evidence = messages.get(name), document.evidences.get(name)
        text = _text(message) if message else evidence.content if evidence else ""
        yield some_of(text, sorted(sentences[name])) if is_part and name in sentences else text
    values = NotedValues(document.evidences)
    for name, fields in noted_fields(row.report).items():
        yield from values.of(name, fields)


def _text(message: Message) -> str:
    calls = " ".join(str(call.args) for call in message.tool_calls or ())
    return f"{message.content} {calls}"


__all__ = ["UnsupportedNumber", "unsupported_numbers"]
