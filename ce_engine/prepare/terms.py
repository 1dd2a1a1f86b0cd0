"""What words say without a model: the terms of a text, and the cues that relevance takes from them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Set as AbstractSet
from datetime import date
from functools import lru_cache
from operator import add
from typing import NamedTuple


# Scripts that put no space between words, and Hangul, whose particles stick to the word:
# Thai, Lao, Burmese, Khmer, kana, Han.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Letters of every other script with their combining marks (which `\w` does not hold), and digits.
_LETTERS = "0-9a-z\u00aa\u00b5\u00ba\u00df-\u00f6\u00f8-\u0dff\u10a0-\u177f\u1800-\u1fff"
_TOKEN = re.compile(
    rf"(\d+(?:[.,]\d+)+|[{_LETTERS}]+|[{_UNSPACED}]+)(?:['’](?:[stdm]|re|ve|ll)\b)?"
)
_RUN = re.compile(rf"[{_UNSPACED}]")
_HAN = re.compile("[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")

# Characters that have another, more usual form: combining marks, Hangul letters, full and half width.
_VARIANT = re.compile("[\u0300-\u036f\u1100-\u11ff\u3099\u309a\uf900-\ufb06\uff10-\uffdc]")

_STOP = frozenset(
    [
        "a",
        "an",
        "the",
        "and",
        "or",
        "but",
        "if",
        "of",
        "to",
        "in",
        "on",
        "at",
        "by",
        "for",
        "from",
        "with",
        "about",
        "into",
        "as",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "being",
        "am",
        "do",
        "did",
        "does",
        "done",
        "has",
        "have",
        "had",
        "having",
        "i",
        "you",
        "he",
        "she",
        "it",
        "we",
        "they",
        "me",
        "him",
        "her",
        "us",
        "them",
        "my",
        "your",
        "his",
        "its",
        "our",
        "their",
        "this",
        "that",
        "these",
        "those",
        "there",
        "here",
        "what",
        "which",
        "who",
        "whom",
        "whose",
        "when",
        "where",
        "why",
        "how",
        "not",
        "no",
        "so",
        "than",
        "too",
        "very",
        "can",
        "could",
        "will",
        "would",
        "shall",
        "should",
        "may",
        "might",
        "must",
        "just",
        "also",
        "don",
        "didn",
        "doesn",
        "isn",
        "wasn",
        "aren",
        "couldn",
        "wouldn",
        "shouldn",
        "hasn",
        "haven",
        "kind",
        "type",
        "many",
        "much",
        "什么",
        "怎么",
        "怎样",
        "如何",
        "为何",
        "为什",
        "哪个",
        "哪些",
        "哪里",
        "哪位",
        "哪种",
        "多少",
        "何时",
        "的",
        "了",
        "吗",
        "呢",
        "是",
        "哪",
        "谁",
        "何",
        "么",
    ]
)

_IRREGULAR = {
    form: base
    for base, *forms in (
        row.split()
        for row in [
            "go went gone",
            "buy bought",
            "see saw seen",
            "take took taken",
            "get got gotten",
            "make made",
            "give gave given",
            "come came",
            "begin began begun",
            "find found",
            "think thought",
            "tell told",
            "say said",
            "feel felt",
            "leave left",
            "meet met",
            "run ran",
            "write wrote written",
            "win won",
            "lose lost",
            "keep kept",
            "teach taught",
            "catch caught",
            "bring brought",
            "hold held",
            "eat ate eaten",
            "drive drove driven",
            "ride rode ridden",
            "speak spoke spoken",
            "break broke broken",
            "choose chose chosen",
            "grow grew grown",
            "know knew known",
            "fly flew flown",
            "draw drew drawn",
            "sing sang sung",
            "swim swam swum",
            "spend spent",
            "build built",
            "sell sold",
            "send sent",
            "fall fell fallen",
            "wear wore worn",
            "stand stood",
            "sleep slept",
            "pay paid",
            "hear heard",
            "lead led",
            "become became",
            "forget forgot forgotten",
            "hide hid hidden",
            "fight fought",
            "sit sat",
            "seek sought",
            "throw threw thrown",
            "steal stole stolen",
            "wake woke woken",
            "child children",
            "person people",
            "man men",
            "woman women",
            "foot feet",
            "wife wives",
            "life lives",
        ]
    )
    for form in forms
}

_PREFIX = 6
"""Letters of a stem that count: what sets `adopt` and `adoption` apart comes later."""


def tokens(text: str) -> list[str]:
    """Words in lower case; of unspaced scripts the pairs of characters, and single Han characters."""
    if text.isascii():
        return _TOKEN.findall(text.lower())
    if _VARIANT.search(text):
        text = unicodedata.normalize("NFKC", text)
    found: list[str] = []
    for run in _TOKEN.findall(text.lower()):
        if run[0] < "\u0e00" or not _RUN.match(run):
            found.append(run)
        elif len(run) == 1:
            found.append(run)
        else:
            found += _HAN.findall(run)
            found += map(add, run, run[1:])
    return found


def terms(text: str) -> list[str]:
    """The terms of a text in their order: its words without stop words, each as its stem."""
    return [term for token in tokens(text) if (term := _term(token))]


def term_set(words: AbstractSet[str]) -> set[str]:
    """The terms of a text with these tokens."""
    found = {word if word[0] > "\u2fff" else _term(word) for word in words - _STOP}
    found.discard("")
    return found


@lru_cache(maxsize=1 << 15)
def _term(token: str) -> str:
    """The term that a token counts as; empty for a stop word."""
    if token in _STOP:
        return ""
    if token[0].isdigit():
        return _number(token)
    if token[0] > "\u0dff" and _RUN.match(token):
        return token
    if not token.isascii() and token[0] < "\u0370":
        decomposed = unicodedata.normalize("NFKD", token)
        token = "".join(c for c in decomposed if not unicodedata.combining(c))
    stem = _stem(_IRREGULAR.get(token, token))
    return stem[:_PREFIX] if stem.isalpha() else stem


def _number(token: str) -> str:
    """`1,200` is `1200`, `05` is `5`, `8th` is `8`; what else begins with a digit stays."""
    if token[-2:] in {"st", "nd", "rd", "th"} and token[:-2].isdigit():
        token = token[:-2]
    return token.replace(",", "").lstrip("0") or "0"


def _stem(word: str) -> str:
    """Take English endings off; what a language without them leaves unharmed is good enough."""
    if len(word) < 4 or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("sses") or (word.endswith("es") and len(word) > 4 and word[-3] in "sxzho"):
        word = word[:-2]
    elif word[-1] == "s" and word[-2] not in "sui":
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending):
            word = _without(word, len(ending))
            break
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    if word[-1] == "e" and len(word) > 3:
        word = word[:-1]
    if word[-1] == "y" and len(word) > 3 and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    return word


def _without(word: str, ending: int) -> str:
    base = word[:-ending]
    if len(base) < 2 or not any(c in "aeiouy" for c in base):
        return word
    if len(base) == 2:
        return base if base[0] in "aeiou" else word
    if base[-1] == base[-2] and base[-1] not in "lsz":
        return base[:-1]
    return base


class _Day(NamedTuple):
    """A date as named: what is not said is `None`."""

    year: int | None
    month: int | None
    day: int | None


_MONTHS = {
    name: number
    for number, names in enumerate(
        [
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ],
        start=1,
    )
    for name in names.split()
}
_MONTH = "|".join(_MONTHS)
_DATE = re.compile(
    rf"""
    (?<!\d)(?P<y1>(?:19|20)\d\d)\s?[-/.年]\s?(?P<m1>\d\d?)(?:\s?[-/.月]\s?(?P<d1>\d\d?))?(?!\d)
    | (?<!\d)(?P<m2>\d\d?)\s?月(?:\s?(?P<d2>\d\d?)\s?[日号])?
    | (?:\b(?P<d3>\d\d?)(?:st|nd|rd|th)?(?:\s+of)?\s+)?
      \b(?P<m3>{_MONTH})\b\.?
      (?:\s+(?P<d4>\d\d?)(?:st|nd|rd|th)?\b(?!:))?(?:,?\s+(?P<y3>(?:19|20)\d\d)\b)?
    | (?<![\d.,])(?P<y4>(?:19|20)\d\d)(?![\d.,]*\d)
    """,
    re.IGNORECASE | re.VERBOSE,
)


_HINT = re.compile(rf"\d|\b(?:{'|'.join(sorted({name[:3] for name in _MONTHS}))})", re.IGNORECASE)


def _dates(text: str) -> list[_Day]:
    """The dates that a text names, in English, Chinese and ISO 8601."""
    found: list[_Day] = []
    if not _HINT.search(text):
        return found
    for match in _DATE.finditer(text):
        part = match.groupdict()
        year = part["y1"] or part["y3"] or part["y4"]
        day = part["d1"] or part["d2"] or part["d3"] or part["d4"]
        name = part["m3"]
        if name in {"may", "march", "mar"} and not (year or day):
            continue  # the verb, unless it is written as a name
        month = _MONTHS[name.lower()] if name else int(part["m1"] or part["m2"] or 0)
        found.append(_Day(int(year) if year else None, month or None, int(day) if day else None))
    return found


_HEADER = re.compile(
    r"\s*(?:[\[(（【](?P<inside>[^\])）】\n]{6,40})[\])）】]|(?P<bare>\d{4}[-/.年]\d\d?[-/.月]\d\d?\S*(?:\s\d\d?:\d\d\S*)?))\s*"
)
_NAME = re.compile(
    r"[\s*_-]*([^\W\d_][\w'’]*(?:[ .-][\w'’]+){0,3}?)[*_]*\s?[:：](?=\s|[^\x00-\x7f])"
)


class Header(NamedTuple):
    """What a line of a transcript begins with: its day (ordinal), its speaker, where its text begins."""

    day: int | None
    speaker: str
    start: int


def header(text: str) -> Header:
    """The leading date and name of a text such as `[8 May 2023] Ann: ...`, as far as it has them."""
    day, start = None, 0
    if match := _HEADER.match(text):
        whole = (named for named in _dates(match[0]) if None not in named)
        day = next((known for y, m, d in whole if (known := _ordinal(y, m, d))), None)
        start = match.end() if day else 0
    name = _NAME.match(text, start, start + 48)
    return Header(day, name[1].lower() if name else "", start)


def day_of(at: str | None) -> int | None:
    """The ordinal of the day of a time in ISO 8601; `None` for what is none."""
    try:
        return date.fromisoformat(at[:10]).toordinal() if at else None
    except ValueError:
        return None


def days_named(text: str, since: int, until: int) -> list[tuple[int, int]]:
    """First and last ordinal of the days, months and years that a text names.

    A date without a year is meant in every year between the ordinals `since` and `until`.
    """
    found: list[tuple[int, int]] = []
    for year, month, day in _dates(text):
        years = [year] if year else range(*_years(since, until))
        for y in years:
            first = _ordinal(y, month or 1, day or 1)
            after = _ordinal(y + (month in {None, 12}), (month or 12) % 12 + 1, 1)
            if first and after:
                found.append((first, first if day else after - 1))
    return found


def _years(since: int, until: int) -> tuple[int, int]:
    return date.fromordinal(since).year, date.fromordinal(until).year + 1


def _ordinal(year: int, month: int, day: int) -> int | None:
    try:
        return date(year, month, day).toordinal()
    except ValueError:
        return None


_TIME_WORDS = frozenset(
    [
        "yesterday",
        "today",
        "tonight",
        "tomorrow",
        "ago",
        "last",
        "next",
        "since",
        "recently",
        "week",
        "weeks",
        "weekend",
        "month",
        "months",
        "year",
        "years",
        "january",
        "february",
        "april",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "昨天",
        "今天",
        "明天",
        "前天",
        "后天",
        "上周",
        "下周",
        "本周",
        "上个",
        "下个",
        "去年",
        "今年",
        "明年",
        "星期",
        "周末",
        "年",
        "月",
        "日",
        "号",
        "时",
        "点",
    ]
)
_NUMBER_WORDS = frozenset(
    [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "dozen",
        "hundred",
        "thousand",
        "million",
        "once",
        "twice",
        "couple",
        "several",
        "一",
        "二",
        "两",
        "三",
        "四",
        "五",
        "六",
        "七",
        "八",
        "九",
        "十",
        "百",
        "千",
        "万",
        "亿",
    ]
)
_ASK = frozenset(["what", "which", "how"])
_ASK_TIME = frozenset(["date", "day", "month", "year", "time", "long"])
_ASK_NUMBER = frozenset(["many", "much", "old", "often", "far", "long", "tall"])
_WHEN = frozenset(
    [
        "when",
        "何时",
        "时候",
        "哪年",
        "哪天",
        "哪月",
        "几月",
        "几号",
        "几点",
        "几年",
        "多久",
        "日期",
        "时间",
    ]
)
_HOW_MANY = frozenset(
    ["多少", "几个", "几次", "几年", "几人", "几岁", "多大", "多长", "多高", "多远", "第几"]
)


_MINE = frozenset("i my me mine myself 我 俺 咱".split())
_YOURS = frozenset("you your yours yourself 你 您".split())


def asks_whom(words: AbstractSet[str]) -> str:
    """Whose words a question with these tokens is about: `user`, `assistant`, or empty for no telling."""
    mine, yours = not _MINE.isdisjoint(words), not _YOURS.isdisjoint(words)
    return "" if mine == yours else "user" if mine else "assistant"


def tells_time(words: AbstractSet[str]) -> bool:
    """Whether a text with these tokens holds an expression of time."""
    return not _TIME_WORDS.isdisjoint(words)


def tells_number(words: AbstractSet[str]) -> bool:
    """Whether a text with these tokens holds a number."""
    # Digits sort before letters.
    return not _NUMBER_WORDS.isdisjoint(words) or min(words, default=":") < ":"


def asks_when(words: AbstractSet[str]) -> bool:
    """Whether a question with these tokens asks for a time."""
    if not _WHEN.isdisjoint(words):
        return True
    return not (_ASK.isdisjoint(words) or _ASK_TIME.isdisjoint(words))


def asks_how_many(words: AbstractSet[str]) -> bool:
    """Whether a question with these tokens asks for a number."""
    if not _HOW_MANY.isdisjoint(words):
        return True
    return "how" in words and not _ASK_NUMBER.isdisjoint(words)
