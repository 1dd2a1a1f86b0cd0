"""Runs the patterns over a text that was made readable, each only where it can possibly hit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from ce_engine.schema.time_limits import breathe, breathing
from ce_engine.text.redaction.devices import DEVICES
from ce_engine.text.redaction.labelled import (
    LABELLED,
    LABELLED_NUMBERS,
    Label,
    Labelled,
    starts_word,
)
from ce_engine.text.redaction.labelled_personal import (
    CODES_BEFORE_LABELS,
    LABELLED_NATIONAL,
    LABELLED_SHORT,
)
from ce_engine.text.redaction.national_ids import FORMS
from ce_engine.text.redaction.numbers import (
    IBAN_HEAD,
    MORE_DIGITS,
    NEAR_DIGITS,
    NUMBER_REACH,
    NUMBERS,
    Number,
    iban_at,
    stands_alone,
)
from ce_engine.text.redaction.passwords import PASSWORDS
from ce_engine.text.redaction.patterns import (
    MAIL_SIGN,
    SHAPES,
    SIGNED_HEADERS,
    TOKEN_PREFIX,
    TOKEN_RUN,
    TOKENS,
    Shape,
    is_token,
    mail_at,
)
from ce_engine.text.redaction.structured_text import COMMANDS, STRUCTURED
from ce_engine.text.redaction.wallets import WALLETS


SHAPES_WITH_DIGITS = (*CODES_BEFORE_LABELS, *DEVICES, *WALLETS, *FORMS)
SOME_DIGITS = re.compile("[0-9][0-9A-Za-z./-]{0,255}")
LABEL_REACH = 72
"""Characters from the beginning of a label to the number that it is of, at most."""


class SensitiveSpan(NamedTuple):
    """What was found: half-open offsets, the label of its placeholder, and the rule that found it."""

    start: int
    end: int
    label: str
    rule: str = ""


def scan(text: str) -> Iterator[SensitiveSpan]:
    """Yield all that the built-in patterns find; spans may overlap, what comes first is surer."""
    lower = lowered(text)
    digits = list(_near_digits(text))
    yield from _labelled(_ANYWHERE, text, lower, lower)
    some = [match.span() for match in breathing(SOME_DIGITS.finditer(text))]
    if some:
        yield from _labelled(_BEFORE_SOME, text, lower, _before(lower, some))
    if digits:
        yield from _labelled(_BEFORE_NUMBERS, text, lower, _before(lower, digits))
    shapes = list(_shapes(SHAPES, text, lower, ((0, len(text)),)))
    yield from shapes
    yield from _shapes((*SIGNED_HEADERS, *COMMANDS), text, lower, ((0, len(text)),), _by_stretches)
    if some:
        yield from _shapes(SHAPES_WITH_DIGITS, text, lower, list(_windows(some)))
    yield from _tokens(text)
    mask = bytearray(len(text))
    for span in breathing(shapes):
        if span.rule == "url_password":
            mask[span.start : span.end] = b"\1" * (span.end - span.start)
    for mail in _mails(text):  # one that ends in a password and a host would leave its first half
        if 1 not in mask[mail.start : mail.end]:
            yield mail
    if digits:
        yield from _accounts(text)
        yield from _numbers(text, digits)


def _near_digits(text: str) -> Iterator[tuple[int, int]]:
    last = 0
    while match := NEAR_DIGITS.search(text, last):
        breathe()
        first, last = match.span()
        while more := MORE_DIGITS.match(text, last):
            breathe()
            last = more.end()
        yield first, last


def lowered(text: str) -> str:
    """Return the text in lower case at the same offsets (some letters have no lower case of length one)."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := sign.lower()) == 1 else sign for sign in text)


def longest(spans: Iterable[SensitiveSpan]) -> list[SensitiveSpan]:
    """Return the spans that remain when the longest of any that overlap wins, in order of place."""
    by_length = sorted(spans, key=lambda span: span.start - span.end)
    winners: list[SensitiveSpan] = []
    mask = bytearray(max((span.end for span in by_length), default=0))
    for span in breathing(by_length):
        # A shorter span that overlaps a longer one has its first or its last place inside it.
        if mask[span.start] or mask[span.end - 1]:
            continue
        mask[span.start : span.end] = b"\1" * (span.end - span.start)
        winners.append(span)
    return sorted(winners, key=_START)


_START = attrgetter("start")


def occurrences(text: str, literal: str) -> Iterator[int]:
    """Yield the places where a literal occurs."""
    at = text.find(literal)
    while at >= 0:
        breathe()
        yield at
        at = text.find(literal, at + len(literal))


def _before(text: str, regions: Iterable[tuple[int, int]]) -> str:
    """Return what stands before numbers, where alone a label of theirs can be."""
    pieces, done = [], 0
    for first, last in breathing(regions):
        pieces.append(text[max(done, first - LABEL_REACH) : first])
        done = last
    return "\n".join(pieces)


class _Table(NamedTuple):
    """Labels with their rules, apart: a text of ASCII alone has no others."""

    ascii: tuple[tuple[str, Labelled], ...]
    others: tuple[tuple[str, Labelled], ...]

    @classmethod
    def of(cls, *rules: Labelled) -> _Table:
        pairs = [(word, rule) for rule in rules for word in rule.words]
        return cls(
            tuple(pair for pair in pairs if pair[0].isascii()),
            tuple(pair for pair in pairs if not pair[0].isascii()),
        )


_ANYWHERE = _Table.of(*PASSWORDS, *LABELLED, *STRUCTURED)
_BEFORE_SOME = _Table.of(*LABELLED_SHORT, *LABELLED_NATIONAL)
_BEFORE_NUMBERS = _Table.of(*LABELLED_NUMBERS)


def _labelled(table: _Table, text: str, lower: str, labels_in: str) -> Iterator[SensitiveSpan]:
    tables = (table.ascii,) if labels_in.isascii() else table
    for word, rule in breathing(
        (word, rule) for pairs in tables for word, rule in pairs if word in labels_in
    ):
        for at in occurrences(lower, word):
            if not (rule.ends_words or starts_word(text, at, len(word))):
                continue
            tail = rule.tail.match(text, at + len(word))
            bounds = tail and rule.accept(Label(text, at, at + len(word), tail))
            if bounds:
                yield SensitiveSpan(*bounds, rule.label, rule.rule)


def _windows(regions: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Give the stretches of a text that are near some digits."""
    begin = end = 0
    for first, last in breathing(regions):
        if end and (first - LABEL_REACH > end or end - begin > _WINDOW):
            yield begin, end
            begin = first - LABEL_REACH
        elif not end:
            begin = max(0, first - LABEL_REACH)
        end = last + LABEL_REACH
    if end:
        yield begin, end


Matches = Iterator[re.Match[str]]


def _at_once(pattern: re.Pattern[str], text: str, begin: int, end: int) -> Matches:
    return pattern.finditer(text, begin, end)


def _by_stretches(pattern: re.Pattern[str], text: str, begin: int, end: int) -> Matches:
    """The same of a pattern that reads a few hundred signs: all other threads wait for one search."""
    at = begin
    while at < end:
        breathe()
        stop = min(end, at + _STRETCH)
        # What begins so near the stretch's end may be longer, or be none, where more is seen of it.
        sure = end if stop == end else stop - _COMMAND_REACH
        done = sure
        for match in pattern.finditer(text, at, stop):
            if match.start() >= sure and stop < end:
                break
            done = max(done, match.end())
            yield match
        at = done


def _shapes(
    shapes: Iterable[Shape],
    text: str,
    lower: str,
    windows: Iterable[tuple[int, int]],
    find: Callable[[re.Pattern[str], str, int, int], Matches] = _at_once,
) -> Iterator[SensitiveSpan]:
    for shape in shapes:
        if shape.needs not in lower:
            continue
        for begin, end in breathing(windows):
            for match in breathing(find(shape.pattern, text, begin, end)):
                if shape.accept(match[1]) and shape.beside(text, *match.span(1)):
                    yield SensitiveSpan(*match.span(1), shape.label, shape.rule)


def _tokens(text: str) -> Iterator[SensitiveSpan]:
    text = f" {text}"  # the gap before the first run
    for run in breathing(TOKEN_RUN.finditer(text)):
        at, stop = run.span()
        while match := TOKEN_PREFIX.search(text, at, stop):
            token = TOKENS[match[0]]
            body = token.body.match(text, match.end())
            at = body.end() if body else match.end()  # read once, hit or not: linear
            if body and is_token(match[0], body[0]):
                yield SensitiveSpan(match.start() - 1, at - 1, "SECRET", token.rule)


def _mails(text: str) -> Iterator[SensitiveSpan]:
    if "@" not in text:
        return
    for match in breathing(MAIL_SIGN.finditer(text)):
        bounds = mail_at(text, match.start())
        if bounds:
            yield SensitiveSpan(*bounds, "EMAIL", "mail")


def _accounts(text: str) -> Iterator[SensitiveSpan]:
    for match in breathing(IBAN_HEAD.finditer(text)):
        bounds = iban_at(text, match)
        if bounds:
            yield SensitiveSpan(*bounds, "IBAN", "iban")


def _numbers(text: str, regions: Iterable[tuple[int, int]]) -> Iterator[SensitiveSpan]:
    for first, last in breathing(regions):
        begin, end = max(0, first - 4), last + 4
        signs, count = set(text[begin:end]), _digit_count(text[first:last])
        for rule in NUMBERS:
            if count < rule.digits or (rule.signs and rule.signs.isdisjoint(signs)):
                continue
            breathe()
            yield from _number(text, rule, begin, end)


def _digit_count(region: str) -> int:
    """Digits in a region, or some count that is enough for every rule: no more of it is looked at."""
    return len(_NO_DIGITS.sub("", region[:_DIGITS_REACH]))


def _first(pattern: re.Pattern[str], text: str, at: int, stop: int) -> re.Match[str] | None:
    """What `pattern.search` finds, looked for by windows: all other threads wait for one search."""
    while True:
        breathe()
        end = min(stop, at + _WINDOW)
        match = pattern.search(text, at, end)
        # What begins so near the window's end may be longer, or be none, where more is seen of it.
        if end == stop or (match and match.start() < end - NUMBER_REACH):
            return match
        at = end - NUMBER_REACH


def _number(text: str, rule: Number, at: int, stop: int) -> Iterator[SensitiveSpan]:
    while match := _first(rule.pattern, text, at, stop):
        start, end = match.span()
        digits = _NO_DIGITS.sub("", match[0])
        if stands_alone(text, start, end, rule) and rule.accept(text, start, end, digits):
            yield SensitiveSpan(start, end, rule.label, rule.rule)
            at = end
        else:
            at = start + 1


_NO_DIGITS = re.compile("[^0-9]+")
_WINDOW = 4096
_COMMAND_REACH = 2048
"""Signs from the beginning of a command to what stands behind its password, at most."""
_STRETCH = 8 * _COMMAND_REACH
_DIGITS_REACH = 4 * max(rule.digits for rule in NUMBERS)
