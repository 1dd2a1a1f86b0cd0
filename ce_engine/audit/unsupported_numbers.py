"""The numbers of an answer that stand in nothing that the model had: worked out, remembered, or made up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ce_engine.audit.input_texts import InputTexts, is_answer, of_message, said_text
from ce_engine.audit.number_places import MOST_CHARS, answer_numbers, likeliest_places
from ce_engine.schema.document import Message
from ce_engine.schema.rows import archive_of
from ce_engine.text.redaction.placeholders import PLACEHOLDER
from ce_engine.text.written_numbers import WrittenNumber, number_forms


MOST_LOOKED_AT = 1000
"""Messages in which a number is looked for that did not go out, the newest."""

MOST_ANSWERS = 6
"""Earlier answers whose own turns are looked at for what they said."""


@dataclass(frozen=True, slots=True)
class UnsupportedNumber:
    """A number, a date or a code of an answer that stands in nothing stored that went out in its turn.

    Attributes:
        text: as the answer has it; a mask, if its value was taken out.
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


def unsupported_numbers(answer: Message, at: int, inputs: InputTexts) -> list[UnsupportedNumber]:
    """The numbers of two digits or more, in their order, each once.

    The app's system messages are never stored: what stands in them counts as nothing. A text that went out shortened counts
    whole, and one that was quoted in part with the sentences that were. An earlier answer supports what its own turn had.

    Args:
        answer: of the turn.
        at: the turn's place in the session.
        inputs: of the session.
    """
    search = _search(answer, at, inputs)
    if search is None:
        return []
    lost = {
        number.text: UnsupportedNumber(
            number.text, may_be_hidden=search.is_hidden and not number.is_mask
        )
        for number in search.missing
    }
    newest_first = reversed(search.earlier[-MOST_LOOKED_AT:])
    others = (of_message(m) for m in newest_first if m.message_id not in search.shown)
    for text, place in likeliest_places(search.missing, others).items():
        lost[text] = replace(lost[text], message_id=place.source.id)
    repeated = {each.text: each for each in _repeated(search, inputs)}
    order = (number.text for number in answer_numbers(answer))
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


def _search(answer: Message, at: int, inputs: InputTexts) -> _Search | None:
    """Look for the numbers of an answer in what went out for it; `None` where nothing is stored of that."""
    shown = inputs.shown(at)
    if shown is None:
        return None
    is_hidden = bool(archive_of(inputs.turns[at].report).get("summaries"))
    missing, answers = answer_numbers(answer), list[str]()
    for piece in inputs.of(answer, at):
        is_hidden |= PLACEHOLDER.search(piece.text) is not None
        if piece.is_answer:
            answers.append(piece.text)
        elif not (missing := _without(missing, piece.text)):
            break
    unsaid = missing
    for text in answers if missing else ():
        unsaid = _without(unsaid, text)
    said = [number for number in missing if number not in unsaid]
    return _Search(inputs.before(answer), shown, unsaid, said, is_hidden)


def _repeated(search: _Search, inputs: InputTexts) -> Iterator[UnsupportedNumber]:
    """Those of earlier answers that stood in nothing that went out for the answer that said them first."""
    places = {
        row.answer_message_id: n for n, row in enumerate(inputs.turns) if row.answer_message_id
    }
    before = dict[str, _Search | None]()
    for number, origin in _first_said(search.of_answers, search.earlier):
        name = origin.message_id or ""
        if name not in places:
            continue  # the app's own words
        if name not in before:
            if len(before) == MOST_ANSWERS:
                continue
            before[name] = _search(origin, places[name], inputs)
        found = before[name]
        if found and any(number.forms & each.forms for each in found.missing):
            yield UnsupportedNumber(
                number.text, "", found.is_hidden, name, answer_turn=places[name] + 1
            )


def _first_said(
    numbers: Sequence[WrittenNumber], messages: Sequence[Message]
) -> Iterator[tuple[WrittenNumber, Message]]:
    """Of each number the first message that has it, where an answer is that."""
    missing = [*numbers]
    for message in messages[-MOST_LOOKED_AT:]:
        if not missing:
            return
        forms = number_forms(said_text(message)[:MOST_CHARS])
        for number in [number for number in missing if number.stands_in(forms)]:
            missing.remove(number)
            if is_answer(message):
                yield number, message


def _without(numbers: Sequence[WrittenNumber], text: str) -> list[WrittenNumber]:
    """Those that a text has not."""
    forms = number_forms(text)
    return [number for number in numbers if not number.stands_in(forms)]


__all__ = ["UnsupportedNumber", "unsupported_numbers"]
