"""The numbers, dates, times and codes of a text in the forms in which they are compared, however they are written.

A mask, such as `[PHONE_3]`, is one, too: it stands for one value in all of a session.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Context, Decimal

from ce_engine.text.overlap import UNSPACED
from ce_engine.text.redaction.placeholders import PLACEHOLDER
from ce_engine.text.written_dates import NO_YEAR, dated_places


AROUND = 40
"""Characters on either side of a number that tell what it is of."""

MAX_CHARS = 200_000
"""Of a text that are looked at."""

_HYPHENS = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-")
_SCALES = {"千": 3, "万": 4, "萬": 4, "亿": 8, "億": 8}
_LETTER = rf"[^\W\d_{UNSPACED}]"
_ITEM = re.compile(
    rf"(?P<mask>{PLACEHOLDER.pattern})"
    r"|(?P<date>(?<!\d)(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<y>\d{4})(?!\d))"
    r"|(?P<time>(?<!\d)\d{1,2}:\d{2}(?::\d{2})?(?![\d:]))"
    rf"|(?P<code>(?<!{_LETTER})(?<!\d){_LETTER}{{1,12}}-?\d(?:{_LETTER}|\d)*(?:-(?:{_LETTER}|\d)+)*)"
    r"|(?P<range>(?<![\d-])\d+(?:-\d+)+(?![\d-]))"
    rf"|(?P<number>\d{{1,3}}(?:[ ,.'’]\d{{3}})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)?)\s?(?P<scale>[{''.join(_SCALES)}]?)"
)
_ENUMERATION = re.compile(r"(?m)^[^\S\n]*+\d{1,3}[.)、]\s")
_GROUPS = re.compile(r"(?<=\d)[ '’](?=\d{3})")


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """One number of a text.

    Attributes:
        text: as it is written there.
        forms: in each of which it may be compared: `1.184` may be a thousand, or one.
        parts: what stands for it, where a text has all of it: each of `12-15` and of `3 214`, and a date without its year.
        around: the text beside it and itself.
    """

    text: str
    forms: frozenset[str]
    parts: tuple[str, ...] = ()
    around: str = field(default="", compare=False)

    @property
    def digits(self) -> int:
        return sum(map(str.isdecimal, self.text))

    @property
    def is_mask(self) -> bool:
        """Whether it stands for a value that was taken out."""
        return PLACEHOLDER.fullmatch(self.text) is not None

    def stands_in(self, forms: frozenset[str] | set[str]) -> bool:
        """Whether a text that has these forms has the number."""
        return bool(self.forms & forms) or (bool(self.parts) and {*self.parts} <= forms)


def written_numbers(text: str) -> list[WrittenNumber]:
    """The numbers of a text, in their order; those that only count its list are none."""
    plain = _plain(text)
    shown = unicodedata.normalize("NFKC", text[:MAX_CHARS]).translate(_HYPHENS)
    found = [*_dates(plain)]
    rest = list(plain)
    for (begin, end), _ in found:
        rest[begin:end] = "\x00" * (end - begin)
    for match in _ENUMERATION.finditer(plain):
        rest[match.start() : match.end()] = "\x00" * (match.end() - match.start())
    found += _items("".join(rest))
    as_is = shown if len(shown) == len(plain) else plain
    return [
        WrittenNumber(
            as_is[begin:end],
            *forms,
            as_is[max(0, begin - AROUND) : end + AROUND],
        )
        for (begin, end), forms in sorted(found, key=lambda each: each[0])
    ]


def number_forms(text: str) -> set[str]:
    """All forms of the numbers that a text has; of a date also its year, its month, its day and the day of the year."""
    plain = _plain(text)
    forms = set(map(_decimal, re.findall(r"\d+", plain)))  # `[1,234]` may be two
    for _, (own, parts) in (*_dates(plain), *_items(plain)):
        forms |= {*own, *parts}
        for each in own:
            if re.fullmatch(r"\d{4}-\d\d-\d\d", each):
                year, month, day = each.split("-")
                forms |= {year, f"{year}-{month}", f"{month}-{day}", str(int(day))}
    return forms


_Found = tuple[tuple[int, int], tuple[frozenset[str], tuple[str, ...]]]


def _plain(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text[:MAX_CHARS]).lower().translate(_HYPHENS)
    return re.sub(r"(?<=\d)t(?=\d\d:\d\d)", " ", plain)


def _dates(plain: str) -> Iterator[_Found]:
    for begin, end, iso in dated_places(plain):
        form = iso.removeprefix(NO_YEAR)
        yield (begin, end), (frozenset({form}), (form[-len("05-15") :],))


def _items(plain: str) -> Iterator[_Found]:
    for match in _ITEM.finditer(plain):
        span = match.span()
        if match["mask"]:
            yield span, (frozenset({match["mask"]}), ())
        elif match["date"]:
            a, b, year = (int(match[name]) for name in "aby")
            yield span, (frozenset({f"{year}-{a:02}-{b:02}", f"{year}-{b:02}-{a:02}"}), ())
        elif match["time"]:
            hour, minute, *_ = match["time"].split(":")
            yield span, (frozenset({f"{int(hour)}:{minute}"}), ())
        elif match["code"]:
            yield span, (frozenset({match["code"].replace("-", "")}), ())
        elif match["range"]:
            parts = tuple(_decimal(part) for part in match["range"].split("-"))
            yield span, (frozenset({match["range"]}), parts)
        else:
            span = match.start(), match.end("scale" if match["scale"] else "number")
            number = match["number"]
            pieces = tuple(map(_decimal, number.split(" "))) if " " in number else ()
            yield span, (frozenset(_amounts(number, _SCALES.get(match["scale"], 0))), pieces)


def _amounts(text: str, scale: int) -> Iterator[str]:
    """What a number may be: points and commas part thousands in one country, and decimals in another."""
    bare = _GROUPS.sub("", text)
    readings = {bare.replace(",", ".") if bare.count(",") == 1 and "." not in bare else bare}
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", bare):
        readings.add(bare.replace(",", ""))
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?", bare):
        readings.add(bare.replace(".", "").replace(",", "."))
    yield from (_decimal(f"{reading}e{scale}") for reading in readings)


def _decimal(text: str) -> str:
    """One way to write a number: `12.0` is `12`; ids of many digits are told apart to the last one."""
    with suppress(ArithmeticError):
        number = Decimal(text).normalize(Context(prec=max(1, len(text))))
        return f"{number:f}" if number else "0"
    return text


__all__ = ["WrittenNumber", "number_forms", "written_numbers"]
