"""What words say without a model: the terms of a text, and the cues that relevance takes from them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import date
from typing import NamedTuple

from ce_engine.schema.text_cache import text_cache
from ce_engine.schema.time_limits import breathe


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _rows(text: str) -> list[list[str]]:
    return [row.split() for row in text.split("|")]


_HAN_RANGES = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Scripts that put no space between words, and Hangul, whose particles stick to the word:
# Thai, Lao, Burmese, Khmer, kana, Hangul.
_OTHER_RANGES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\uac00-\ud7af"
_UNSPACED = _HAN_RANGES + _OTHER_RANGES
# Letters of every other script with their combining marks (which `\w` does not hold), and digits.
_LETTERS = "0-9a-z\u00aa\u00b5\u00ba\u00df-\u00f6\u00f8-\u0dff\u10a0-\u177f\u1800-\u1fff"

# No run of digits is looked at again from its middle: a text of nothing else would take the square of its length.
_WORD = re.compile(rf"(\d++(?:[.,]\d++)+|[{_LETTERS}\d]+)(?:['’](?:[stdm]|re|ve|ll)\b)?")
_HAN = re.compile(rf"[{_HAN_RANGES}]")
_OTHER = re.compile(rf"[{_OTHER_RANGES}]")
_ALONE = re.compile(rf"(?<![{_UNSPACED}])[{_OTHER_RANGES}](?![{_UNSPACED}])")
_PAIR = re.compile(rf"(?=([{_UNSPACED}][{_UNSPACED}])).")

# Characters with another, more usual form: combining marks, Hangul letters, full and half width.
_VARIANT = re.compile(
    "[\u0300-\u036f\u1100-\u11ff\u3099\u309a\uf900-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc]"
)

_STOP = _words(
    "a an the and or but if of to in on at by for from with about into as is are was were be been being "
    "am do did does done has have had having i you he she it we they me him her us them my your his its "
    "our their this that these those there here what which who whom whose when where why how not no so "
    "than too very can could will would shall should may might must just also don didn doesn isn wasn "
    "aren couldn wouldn shouldn hasn haven kind type many much "
    "的 了 吗 呢 是 哪 谁 何 么 什么 怎么 怎样 如何 为何 为什 哪个 哪些 哪里 哪位 哪种 多少 何时"
)

IRREGULAR = {
    form: base
    for base, *forms in _rows(
        "go went gone|buy bought|see saw seen|take took taken|get got gotten|make made|give gave given|"
        "come came|begin began begun|find found|think thought|tell told|say said|feel felt|leave left|"
        "meet met|run ran|write wrote written|win won|lose lost|keep kept|teach taught|catch caught|"
        "bring brought|hold held|eat ate eaten|drive drove driven|ride rode ridden|speak spoke spoken|"
        "break broke broken|choose chose chosen|grow grew grown|know knew known|fly flew flown|"
        "draw drew drawn|sing sang sung|swim swam swum|spend spent|build built|sell sold|send sent|"
        "fall fell fallen|wear wore worn|stand stood|sleep slept|pay paid|hear heard|lead led|"
        "become became|forget forgot forgotten|hide hid hidden|fight fought|sit sat|seek sought|"
        "throw threw thrown|steal stole stolen|wake woke woken|child children|person people|man men|"
        "woman women|foot feet|wife wives|life lives"
    )
    for form in forms
}

PIECE_CHARS = 65_536
"""A text is read in pieces no longer than this: one search of a long text holds up all threads."""

_PREFIX = 6
"""Letters of a stem that count: what sets `compete` and `competition` apart comes later."""


def tokens(text: str) -> list[str]:
    """Words in lower case; of unspaced scripts single Han characters, then all pairs of characters."""
    if text.isascii():
        return _WORD.findall(text.lower())
    if _VARIANT.search(text):
        text = unicodedata.normalize("NFKC", text)
    text = text.lower()
    words = _WORD.findall(text)
    words += _HAN.findall(text)
    if _OTHER.search(text):
        words += _ALONE.findall(text)
    words += _PAIR.findall(text)
    return words


def word_set(text: str) -> set[str]:
    """The different tokens of a text; a long one is read in pieces, cut between words where there are any."""
    words: set[str] = set()
    start = 0
    while len(text) - start > PIECE_CHARS:
        breathe()
        end = text.rfind(" ", start + PIECE_CHARS // 2, start + PIECE_CHARS)
        end = end if end > 0 else start + PIECE_CHARS
        words.update(tokens(text[start:end]))
        start = end
    words.update(tokens(text[start:]))
    return words


def terms(text: str) -> list[str]:
    """The terms of a text: its tokens without stop words, each word as its stem."""
    words = (word for word in tokens(text) if word not in _STOP)
    return [word if word > "\u3000" else _term(word) for word in words]


def term_set(words: AbstractSet[str]) -> set[str]:
    """The terms of a text with these tokens."""
    return {word if word > "\u3000" else _term(word) for word in words - _STOP}


@text_cache(maxsize=1 << 15)
def _term(word: str) -> str:
    """The term that a word counts as."""
    if word[0].isdigit():
        return _number(word)
    if _OTHER.match(word):
        return word
    if not word.isascii() and word[0] < "\u0370":
        decomposed = unicodedata.normalize("NFKD", word)
        word = "".join(c for c in decomposed if not unicodedata.combining(c))
    stem = _stem(IRREGULAR.get(word, word))
    return stem[:_PREFIX] if stem.isalpha() else stem


def _number(word: str) -> str:
    """`1,200` is `1200`, `05` is `5`, `8th` is `8`; what else begins with a digit stays."""
    if word[-2:] in {"st", "nd", "rd", "th"} and word[:-2].isdigit():
        word = word[:-2]
    return word.replace(",", "").lstrip("0") or "0"


def _stem(word: str) -> str:
    """Take English endings off. Other languages lose little by it: texts and questions lose the same."""
    if len(word) < 4 or not word.isascii():
        return word
    word = _singular(word)
    if word.endswith("ing"):
        word = _without(word, 3)
    elif word.endswith("ed"):
        word = _without(word, 2)
    if word.endswith("ly") and len(word) > 5:
        word = word[:-2]
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    if word.endswith("y") and len(word) > 3 and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    return word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("es") and len(word) > 4 and word[-3] in "sxzho":
        return word[:-2]
    return word[:-1] if word.endswith("s") and word[-2] not in "sui" else word


def _without(word: str, ending: int) -> str:
    """The word without its ending, if what remains can be a word; a doubled consonant is one again."""
    base = word[:-ending]
    if len(base) < 3 or not any(c in "aeiouy" for c in base):
        return base if len(base) == 2 and base[0] in "aeiou" else word
    return base[:-1] if base[-1] == base[-2] and base[-1] not in "lsz" else base


class _Date(NamedTuple):
    """A date as named: what is not said is `None`."""

    year: int | None
    month: int | None
    day: int | None


_MONTHS = {
    name: number
    for number, names in enumerate(
        _rows(
            "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|"
            "september sept sep|october oct|november nov|december dec"
        ),
        start=1,
    )
    for name in names
}
_MONTH = "|".join(_MONTHS)
_DATE_HINT = re.compile(rf"\d|\b(?:{'|'.join(sorted({m[:3] for m in _MONTHS}))})", re.IGNORECASE)
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


def _dates(text: str) -> list[_Date]:
    """The dates that a text names, in English, Chinese and ISO 8601."""
    dates: list[_Date] = []
    if not _DATE_HINT.search(text):
        return dates
    for match in _DATE.finditer(text):
        part = match.groupdict()
        year = part["y1"] or part["y3"] or part["y4"]
        day = part["d1"] or part["d2"] or part["d3"] or part["d4"]
        name = part["m3"]
        if name in {"may", "march", "mar"} and not (year or day):
            continue  # the verb, unless it is written as a name
        month = _MONTHS[name.lower()] if name else int(part["m1"] or part["m2"] or 0)
        dates.append(_Date(int(year) if year else None, month or None, int(day) if day else None))
    return dates


def days_named(text: str, years: Iterable[int]) -> list[tuple[int, int]]:
    """First and last ordinal of each day, month and year that a text names.

    A date without a year is meant in each of `years`.
    """
    day_spans: list[tuple[int, int]] = []
    for year, month, day in _dates(text):
        for y in [year] if year else sorted(years):
            first = _ordinal(y, month or 1, day or 1)
            after = _ordinal(y + (month in {None, 12}), (month or 12) % 12 + 1, 1)
            if first and after:
                day_spans.append((first, first if day else after - 1))
    return day_spans


def day_of(at: str | None) -> int | None:
    """The ordinal of the day of a time in ISO 8601; `None` for what is none."""
    try:
        return date.fromisoformat(at[:10]).toordinal() if at else None
    except ValueError:
        return None


def _ordinal(year: int | None, month: int | None, day: int | None) -> int | None:
    try:
        return date(year, month, day).toordinal() if year and month and day else None
    except ValueError:
        return None


_HEADER = re.compile(
    r"\s*(?:[\[(（【][^\])）】\n]{6,40}[\])）】]"
    # A clock time and a mark may follow; the next word may too, at once, where no spaces are.
    r"|\d{4}[-/.年]\d\d?[-/.月]\d\d?(?!\d)[日号]?(?:[T\s]\d\d?:\d\d[\d:.,Z+-]*)?[^\w\s]*)\s*"
)
_AROUND = " \t\n[](（）)【】,，.。:：;；、日号"
_NAME = re.compile(
    r"[\s*_-]*([^\W\d_][\w'’]*(?:[ .-][\w'’]+){0,3}?)[*_]*\s?[:：](?=\s|[^\x00-\x7f])"
)


class Header(NamedTuple):
    """What a line of a transcript begins with: its day (ordinal), its speaker, where its text begins."""

    day: int | None
    speaker: str
    start: int


def header(text: str) -> Header:
    """The date and name in front of a text such as `[8 May 2023] Ann: ...`, as far as it has them.

    The text begins after the date: a name is a word of it as well.
    """
    day, start = None, 0
    if match := _HEADER.match(text):
        day = next(
            (ordinal for date_parts in _dates(match[0]) if (ordinal := _ordinal(*date_parts))), None
        )
        start = match.end() if day else 0
    name = _NAME.match(text, start, start + 48)
    return Header(day, name[1].lower() if name else "", start)


def is_date(text: str) -> bool:
    """Whether a text is a date and nothing else, as no time of the day; brackets and marks aside."""
    return _DATE.fullmatch(text.strip(_AROUND)) is not None


_TIME = _words(
    "yesterday today tonight tomorrow ago last next since recently week weeks weekend month months year "
    "years january february april june july august september october november december monday tuesday "
    "wednesday thursday friday saturday sunday "
    "昨天 今天 明天 前天 后天 上周 下周 本周 上个 下个 去年 今年 明年 星期 周末 年 月 日 号 时 点"
)
_NUMBER = _words(
    "one two three four five six seven eight nine ten eleven twelve dozen hundred thousand million once "
    "twice couple several 一 二 两 三 四 五 六 七 八 九 十 百 千 万 亿"
)
_WHEN = _words("when 何时 时候 哪年 哪天 哪月 几月 几号 几点 几年 多久 日期 时间")
_HOW_MANY = _words("多少 几个 几次 几年 几人 几岁 多大 多长 多高 多远 第几")
_ASK = _words("what which how")
# What a question in Chinese asks with, and what it asks somebody to do. Their pairs with what is beside them
# would count as rare words, and the "me" of "tell me" is nobody's whose words are meant.
_ASKING = re.compile(
    r"(?:请问|(?:[请能你您]|可以|可否|麻烦){0,3}(?:告诉我|[给跟帮为替]我(?:介绍|解释|总结|回忆|[讲说找查看]))(?:一下)?)"
    r"|为什么|什么时候|什么样|什么|怎么样|怎么|怎样|如何|为何|哪一?[个些里位种]|哪(?![吒怕])|多少|(?<!任)何时|谁|[吗呢](?=\W|$)"
    r"|^(?:please |(?:can|could|would) you (?:please )?)?(?:tell|show|give|remind) me\b",
    re.IGNORECASE,
)
_ASK_TIME = _words("date day month year time long")
_ASK_NUMBER = _words("many much old often far long tall")
_MINE = _words("i my me mine myself 我 俺 咱")
_YOURS = _words("you your yours yourself 你 您")


def is_question(text: str) -> bool:
    """Whether a text asks something."""
    return "?" in text or "？" in text


def tells_time(words: AbstractSet[str]) -> bool:
    """Whether a text with these tokens holds an expression of time."""
    return not _TIME.isdisjoint(words)


def tells_number(words: AbstractSet[str]) -> bool:
    """Whether a text with these tokens holds a number."""
    # Digits sort before letters.
    return not _NUMBER.isdisjoint(words) or min(words, default=":") < ":"


def matter(question: str) -> str:
    """What a question is about: itself, without the words that it asks with."""
    return _ASKING.sub(" ", question)


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


def asks_whom(words: AbstractSet[str]) -> str:
    """Whose words a question with these tokens is about: `user`, `assistant`, or empty for no telling."""
    has_mine, has_yours = not _MINE.isdisjoint(words), not _YOURS.isdisjoint(words)
    if has_mine == has_yours:
        return ""
    return "user" if has_mine else "assistant"


def place_of_name(name: str, query: str) -> int:
    """Where the query names the speaker as a whole word (in unspaced scripts, anywhere), else -1."""
    place = query.find(name)
    while place >= 0 and name.isascii():
        around = query[max(0, place - 1) : place] + query[place + len(name) :][:1]
        if not any(c.isalnum() and c.isascii() for c in around):
            break
        place = query.find(name, place + 1)
    return place
