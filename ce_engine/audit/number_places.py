"""Where the numbers of an answer stand in what the model had, each with the words beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter

from ce_engine.audit.input_texts import InputText, InputTexts
from ce_engine.schema.document import Message
from ce_engine.text.relevance.terms import term_set, word_set
from ce_engine.text.written_numbers import WrittenNumber, number_forms, written_numbers


LEAST_DIGITS = 2
"""Of a number that is looked for: others stand anywhere."""

MOST_NUMBERS = 40
"""Numbers of an answer that are looked for, the first."""

MOST_PLACES = 12
"""Texts that have a number, and places in one, that are compared, the newest texts."""

MOST_CHARS = 20_000
"""Of a text that are looked at."""


@dataclass(frozen=True, slots=True)
class NumberPlace:
    """Where a number of an answer stands, or the likeliest of several such places.

    Attributes:
        text: the number, as the answer has it.
        source: what it stands in.
        words: the number as it stands there, with what is beside it; `""` where it is a part of something else there.
        written: the number as it is written there.
        others: further texts in which it stands, `MOST_PLACES` at most.
    """

    text: str
    source: InputText
    words: str
    written: str
    others: int = 0


def number_places(answer: Message, at: int, inputs: InputTexts) -> list[NumberPlace]:
    """Of each number of an answer that stands in what went out for it the place that most likely speaks of the same.

    What the model said itself counts only where nothing else has the number.

    Args:
        answer: of the turn.
        at: the turn's place in the session.
        inputs: of the session.
    """
    numbers = answer_numbers(answer)
    if not numbers:
        return []
    pieces = [*inputs.of(answer, at)][::-1]
    found = likeliest_places(numbers, (piece for piece in pieces if not piece.is_answer))
    rest = [number for number in numbers if number.text not in found]
    found |= likeliest_places(rest, (piece for piece in pieces if piece.is_answer))
    return [found[number.text] for number in numbers if number.text in found]


def answer_numbers(answer: Message) -> list[WrittenNumber]:
    """The numbers of an answer that are looked for, each once."""
    written = written_numbers(answer.content)
    by_text = {each.text: each for each in written if each.is_mask or each.digits >= LEAST_DIGITS}
    return [*by_text.values()][:MOST_NUMBERS]


def likeliest_places(
    numbers: Sequence[WrittenNumber], newest_first: Iterable[InputText]
) -> dict[str, NumberPlace]:
    """Of each number that a text has the place that most likely speaks of the same, by the words beside it.

    Of equals the newest: fourteen days are not fourteen o'clock.
    """
    own_terms = {number.text: term_set(word_set(number.around)) for number in numbers}
    likeliest: dict[str, tuple[int, NumberPlace]] = {}
    missing, seen = [*numbers], Counter[str]()
    for source in newest_first if numbers else ():
        text = source.text[:MOST_CHARS]
        forms = number_forms(text)
        here = [number for number in missing if number.stands_in(forms)]
        written = written_numbers(text) if here else []
        for number in here:
            shared, words, as_there = _most_alike(number, own_terms[number.text], written)
            if number.text not in likeliest or shared > likeliest[number.text][0]:
                likeliest[number.text] = shared, NumberPlace(number.text, source, words, as_there)
        seen.update(number.text for number in here)
        missing = [number for number in missing if seen[number.text] < MOST_PLACES]
        if not missing:
            break
    return {text: replace(place, others=seen[text] - 1) for text, (_, place) in likeliest.items()}


def _most_alike(
    number: WrittenNumber, own: set[str], written: Iterable[WrittenNumber]
) -> tuple[int, str, str]:
    """Of the place in a text whose words are most those beside a number: how many it has, its words, and the number there."""
    forms = {*number.forms, *number.parts}
    alike = islice((each for each in written if forms & each.forms), MOST_PLACES)
    scored = [
        (len(term_set(word_set(each.around)) & own), each.around, each.text) for each in alike
    ]
    return max(scored, key=itemgetter(0), default=(0, "", ""))


__all__ = ["NumberPlace", "answer_numbers", "likeliest_places", "number_places"]
