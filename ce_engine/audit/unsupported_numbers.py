"""The numbers of an answer that stand in nothing that the model had: worked out, remembered, or made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ce_engine.audit.noted_sources import NotedValues, noted_fields
from ce_engine.audit.places.quoted_pieces import Pins, PinsAfter, quoted_pieces, quoted_sentences
from ce_engine.audit.places.whereabouts import LEFT
from ce_engine.prepare.compose.render import some_of
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.enums import EvidenceType, Role
from ce_engine.schema.rows import TurnRow, archive_of
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

MOST_ANSWERS = 6
"""Earlier answers whose own turns are looked at for what they said."""

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
        answer_id: the model's own earlier answer that said it first, where no more than such answers that went out had it, and
            nothing that went out for that one.
        answer_turn: the turn of that answer, from 1.
    """

    text: str
    message_id: str = ""
    may_be_hidden: bool = False
    answer_id: str = ""
    answer_turn: int = 0


def unsupported_numbers(
    answer: Message,
    document: SessionDocument,
    turns: Sequence[TurnRow],
    at: int,
    fates: Callable[[int], Mapping[str, str]],
    rules: Callable[[int], Iterable[str]] = lambda _: (),
) -> list[UnsupportedNumber]:
    """The numbers of two digits or more, in their order, each once.

    The app's system messages are never stored: what stands in them counts as nothing. A text that went out shortened counts
    whole, and one that was quoted in part with the sentences that were. An earlier answer supports what its own turn had.

    Args:
        answer: of the turn.
        document: of the session.
        turns: all of it, oldest first.
        at: the turn's place among them.
        fates: what became of each message in a turn, by id, and by the turn's place (`recorded_fates`).
        rules: texts of rules that went out in a turn, by its place.
    """
    inputs = _Inputs(document, turns, PinsAfter(turns), fates, rules)
    search = inputs.search(answer, at)
    if search is None:
        return []
    lost = {
        number.text: UnsupportedNumber(number.text, "", search.is_hidden)
        for number in search.missing
    }
    others = [
        m for m in reversed(search.earlier[-MOST_LOOKED_AT:]) if m.message_id not in search.shown
    ]
    for text, message in _likeliest(search.missing, others).items():
        lost[text] = replace(lost[text], message_id=message.message_id or "")
    repeated = {each.text: each for each in inputs.repeated(search)}
    order = (number.text for number in _numbers(answer.content))
    return [found for text in order if (found := lost.get(text) or repeated.get(text))]


@dataclass(slots=True)
class _Search:
    """What became of the numbers of an answer.

    Attributes:
        earlier: the messages before it.
        shown: the ids of those that went out.
        missing: its numbers that nothing had.
        of_answers: those that only earlier answers of the model had.
        is_hidden: whether something that went out is stored masked, or went out summed up.
    """

    earlier: Sequence[Message]
    shown: frozenset[str]
    missing: list[WrittenNumber]
    of_answers: list[WrittenNumber]
    is_hidden: bool


@dataclass(slots=True)
class _Inputs:
    """What went out in the turns of a session, as texts."""

    document: SessionDocument
    turns: Sequence[TurnRow]
    pins: PinsAfter
    fates: Callable[[int], Mapping[str, str]]
    rules: Callable[[int], Iterable[str]]

    def search(self, answer: Message, at: int) -> _Search | None:
        """Look for the numbers of an answer in what went out for it; `None` where nothing is stored of that."""
        fates = self.fates(at)
        if not fates:
            return None
        messages = self.document.session.messages
        earlier = messages[
            : next((n for n, m in enumerate(messages) if m is answer), len(messages))
        ]
        shown = frozenset(name for name, fate in fates.items() if fate not in LEFT)
        row = self.turns[at]
        is_hidden = bool(archive_of(row.report).get("summaries"))
        own = ((_text(m), _is_answer(m)) for m in earlier if m.message_id in shown)
        missing, answers = _numbers(answer.content), list[str]()
        ruled = ((text, False) for text in self.rules(at))
        for text, is_answer in (*own, *_put_in(self.document, row, self.pins.of(row)), *ruled):
            is_hidden |= PLACEHOLDER.search(text) is not None
            if is_answer:
                answers.append(text)
            elif not (missing := _without(missing, text)):
                break
        unsaid = missing
        for text in answers if missing else ():
            unsaid = _without(unsaid, text)
        said = [number for number in missing if number not in unsaid]
        return _Search(earlier, shown, unsaid, said, is_hidden)

    def repeated(self, search: _Search) -> Iterator[UnsupportedNumber]:
        """Those of earlier answers that stood in nothing that went out for the answer that said them first."""
        places = {
            row.answer_message_id: n for n, row in enumerate(self.turns) if row.answer_message_id
        }
        before = dict[str, _Search | None]()
        for number, origin in _first_said(search.of_answers, search.earlier):
            name = origin.message_id or ""
            if name not in places:
                continue  # the app's own words
            if name not in before:
                if len(before) == MOST_ANSWERS:
                    continue
                before[name] = self.search(origin, places[name])
            found = before[name]
            if found and any(number.forms & each.forms for each in found.missing):
                yield UnsupportedNumber(
                    number.text, "", found.is_hidden, name, answer_turn=places[name] + 1
                )


def _is_answer(message: Message) -> bool:
    return message.role is Role.ASSISTANT


def _first_said(
    numbers: Sequence[WrittenNumber], messages: Sequence[Message]
) -> Iterator[tuple[WrittenNumber, Message]]:
    """Of each number the first message that has it, where an answer is that."""
    missing = [*numbers]
    for message in messages[-MOST_LOOKED_AT:]:
        if not missing:
            return
        forms = number_forms(_text(message)[:MOST_CHARS])
        for number in [number for number in missing if number.stands_in(forms)]:
            missing.remove(number)
            if _is_answer(message):
                yield number, message


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


def _put_in(document: SessionDocument, row: TurnRow, after: Pins) -> Iterator[tuple[str, bool]]:
    """What stood quoted in a turn, of texts in part what of them did, and what a note said of sources that disagree.

    Each with whether it is the model's own answer.
    """
    messages = {message.message_id: message for message in document.session.messages}
    sentences = quoted_sentences(row, after)
    for name, is_part in quoted_pieces(row, after).items():
        message, evidence = messages.get(name), document.evidences.get(name)
        text = _text(message) if message else evidence.content if evidence else ""
        is_answer = (
            _is_answer(message)
            if message
            else evidence is not None and evidence.type is EvidenceType.LLM_OUTPUT
        )
        part = some_of(text, sorted(sentences[name])) if is_part and name in sentences else text
        yield part, is_answer
    values = NotedValues(document.evidences)
    for name, fields in noted_fields(row.report).items():
        yield from ((text, False) for text in values.of(name, fields))


def _text(message: Message) -> str:
    calls = " ".join(str(call.args) for call in message.tool_calls or ())
    return f"{message.content} {calls}"


__all__ = ["UnsupportedNumber", "unsupported_numbers"]
