"""The numbers of an answer that stand in nothing that the model had: worked out, remembered, or made up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ce_engine.audit.places.quoted_pieces import PinsAfter, quoted_pieces, quoted_sentences
from ce_engine.audit.places.recorded_choice import recorded_fates
from ce_engine.audit.places.whereabouts import LEFT
from ce_engine.prepare.compose.render import some_of
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_engine.text.overlap import Words, numbers_of
from ce_engine.text.redaction.placeholders import PLACEHOLDER
from ce_engine.text.written_dates import NO_YEAR


MOST_LOOKED_AT = 1000
"""Messages in which a number is looked for that did not go out, the newest."""


@dataclass(frozen=True, slots=True)
class UnsupportedNumber:
    """A number, a date or a code of an answer that stands in nothing stored that went out in its turn.

    Attributes:
        text: as the answer has it.
        message_id: the newest earlier message that has it, and did not go out; `""` of none.
        may_be_masked: what went out is stored masked in part, and it may stand in that.
    """

    text: str
    message_id: str
    may_be_masked: bool


def unsupported_numbers(
    answer: Message,
    document: SessionDocument,
    turns: Sequence[TurnRow],
    at: int,
    rules: Iterable[str] = (),
) -> list[UnsupportedNumber]:
    """The numbers of two digits or more, in their order, each once.

    The app's system messages are never stored: what stands in them counts as nothing.

    Args:
        answer: of the turn.
        document: of the session.
        turns: all of it, oldest first.
        at: the turn's place among them.
        rules: texts of rules that went out.
    """
    words = Words.of(answer.content)
    missing = numbers_of(words.all)
    earlier = document.session.messages
    earlier = earlier[: next((n for n, m in enumerate(earlier) if m is answer), len(earlier))]
    ids = [message.message_id for message in earlier if message.message_id]
    fates = recorded_fates(ids, document, turns, at)
    if not fates:
        return []  # nothing is stored of what it had
    shown = {name for name, fate in fates.items() if fate not in LEFT}
    texts = [_text(message) for message in earlier if message.message_id in shown]
    texts += [*_quoted(document, turns, at), *rules]
    for text in texts if missing else ():
        for number in _numbers(words, text).keys() & missing.keys():
            del missing[number]
    is_masked = any(map(PLACEHOLDER.search, texts))
    return [
        UnsupportedNumber(
            _as_said(word, answer.content), _elsewhere(word, earlier, shown), is_masked
        )
        for word in missing.values()
    ]


def _numbers(words: Words, text: str) -> Mapping[str, str]:
    """The numbers that both have; a date without a year is that of the other."""
    source = Words.of(text)
    own = numbers_of(source.with_years_of(words).all) | numbers_of(source.all)
    # A date of the answer goes by the name that the answer has for it.
    pairs = zip(words.all, words.with_years_of(source).all, strict=True)
    return {
        name: word
        for word, dated in pairs
        for name in numbers_of([word])
        if own.keys() & {name, *numbers_of([dated])}
    }


def _quoted(document: SessionDocument, turns: Sequence[TurnRow], at: int) -> Iterator[str]:
    """The texts that stood quoted in a turn, of those in part what of them did."""
    row, after = turns[at], PinsAfter(turns).of(turns[at])
    messages = {message.message_id: message for message in document.session.messages}
    sentences = quoted_sentences(row, after)
    for name, is_part in quoted_pieces(row, after).items():
        message, evidence = messages.get(name), document.evidences.get(name)
        text = _text(message) if message else evidence.content if evidence else ""
        yield some_of(text, sorted(sentences[name])) if is_part and name in sentences else text


def _text(message: Message) -> str:
    calls = " ".join(str(call.args) for call in message.tool_calls or ())
    return f"{message.content} {calls}"


def _elsewhere(word: str, earlier: Sequence[Message], shown: set[str]) -> str:
    """The newest message that has a number, of those that did not go out and are looked at."""
    number = numbers_of([word]).keys()
    others = (m for m in reversed(earlier[-MOST_LOOKED_AT:]) if m.message_id not in shown)
    has_it = (m for m in others if number & numbers_of(Words.of(_text(m)).all).keys())
    return next((message.message_id or "" for message in has_it), "")


def _as_said(word: str, text: str) -> str:
    """A number as it stands in a text, where that is to be found."""
    match = re.search(re.escape(word), text, re.IGNORECASE)
    return match[0] if match else word.removeprefix(NO_YEAR)


__all__ = ["UnsupportedNumber", "unsupported_numbers"]
