"""Finds a deleted text in other texts, whole or in passages, and takes it out of them (A-30).

Compared are characters without white space, in any case of letters: line breaks and indents are not what
a text says. What is there in other words is not found; who deletes is told which answers may have it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any
from unicodedata import east_asian_width


PASSAGE = 24
"""As many characters in a row are a passage; in a text mostly of wide characters half as many."""
SHORTEST = 4
"""A text of fewer letters and digits (wide ones count twice) is taken out only where nothing else stands."""
DELETED = "[deleted]"
"""Stands where a passage was."""

_SAMPLE = 2000
_INDEXED_WHOLE = 200_000
"""Of a longer text the places are looked up in steps, to save memory; then every place of the others is."""
_PLACES = 64
_RUN = re.compile(r"\S+")


class _Plain:
    """A text without white space, with the way back to its places."""

    __slots__ = ("_begins", "_places", "text")

    def __init__(self, text: str) -> None:
        runs = [(run.start(), run[0]) for run in _RUN.finditer(text)]
        plain = "".join(run for _, run in runs)
        lower = plain.lower()
        self.text = lower if len(lower) == len(plain) else plain
        self._places = [start for start, _ in runs]
        self._begins, length = [], 0
        for _, run in runs:
            self._begins.append(length)
            length += len(run)

    def place(self, index: int) -> int:
        """Where the character stands in the whole text."""
        run = bisect_right(self._begins, index) - 1
        return self._places[run] + index - self._begins[run]


class Quotations:
    """What of one deleted text stands in others."""

    def __init__(self, text: str) -> None:
        self._text = _Plain(text).text
        sample = self._text[:_SAMPLE]
        is_wide = 2 * sum(map(_is_wide, sample)) > len(sample)
        self._least = PASSAGE // 2 if is_wide else PASSAGE
        self._gram = self._least // 2
        in_steps = len(self._text) > _INDEXED_WHOLE
        self._step = 1 if in_steps else self._gram
        self._index: dict[str, list[int]] = {}
        for place in range(0, len(self._text) - self._gram + 1, self._gram if in_steps else 1):
            places = self._index.setdefault(self._text[place : place + self._gram], [])
            if len(places) < _PLACES:
                places.append(place)

    def __bool__(self) -> bool:
        return any(map(str.isalnum, self._text))

    def without(self, text: str, *, passages_only: bool = False) -> str:
        """The text without what it quotes, itself if it quotes nothing; empty if nothing else is in it."""
        plain = _Plain(text)
        spans = [*self._passages(plain.text)]
        if not passages_only and len(self._text) < self._least:
            spans += self._short(plain, text)
        if not spans:
            return text
        return _cut(text, [(plain.place(start), plain.place(end - 1) + 1) for start, end in spans])

    def without_data(self, value: Any, *, passages_only: bool = False) -> Any:
        """The same of all texts in plain data; itself if none quotes anything."""
        if isinstance(value, str):
            return self.without(value, passages_only=passages_only)
        if isinstance(value, dict):
            done = {
                self.without_data(key, passages_only=True): self.without_data(
                    item, passages_only=passages_only
                )
                for key, item in value.items()
            }
            return value if done == value else done
        if isinstance(value, list):
            items = [self.without_data(item, passages_only=passages_only) for item in value]
            return value if items == value else items
        return value

    def _passages(self, other: str) -> Iterator[tuple[int, int]]:
        ends: dict[int, int] = {}  # by how far both are apart, up to where they were compared
        covered = 0
        for at in range(0, len(other) - self._gram + 1, self._step):
            if at + self._gram <= covered:
                continue
            for place in self._index.get(other[at : at + self._gram], ()):
                if ends.get(at - place, 0) > at:
                    continue
                start, end = self._common(other, at, place)
                ends[at - place] = end
                if end - start >= self._least:
                    yield start, end
                    covered = end
                    break

    def _common(self, other: str, at: int, place: int) -> tuple[int, int]:
        """From where to where the other text says the same."""
        own, start, end = self._text, 0, self._gram
        left = min(at, place, self._least)  # what begins earlier was found there
        while start < left and other[at - start - 1] == own[place - start - 1]:
            start += 1
        most = min(len(other) - at, len(own) - place)
        while end < most and other[at + end] == own[place + end]:
            end += 1
        return at - start, at + end

    def _short(self, plain: _Plain, text: str) -> Iterator[tuple[int, int]]:
        """A text too short for passages: where all of it stands, as words of its own."""
        own = self._text
        if plain.text == own:
            yield 0, len(own)
            return
        if sum(1 + _is_wide(sign) for sign in own if sign.isalnum()) < SHORTEST:
            return
        at = plain.text.find(own)
        while own and at >= 0:
            start, end = plain.place(at), plain.place(at + len(own) - 1) + 1
            if not (_goes_on(text, start - 1, start) or _goes_on(text, end - 1, end)):
                yield at, at + len(own)
            at = plain.text.find(own, at + 1)


def _is_wide(sign: str) -> bool:
    return sign > "\u10ff" and east_asian_width(sign) in "WF"


def _goes_on(text: str, left: int, right: int) -> bool:
    """Whether both places are in one word; scripts of wide characters have no spaces between words."""
    if left < 0 or right >= len(text):
        return False
    signs = text[left], text[right]
    return all(sign.isalnum() and not _is_wide(sign) for sign in signs)


def _cut(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with a word for each span, whole words with them; empty if nothing is left to say."""
    parts: list[str] = []
    last = 0
    for start, end in sorted(spans):
        begin = start
        while begin > last and _goes_on(text, begin - 1, begin):
            begin -= 1
        while _goes_on(text, end - 1, end):
            end += 1  # noqa: PLW2901 - to the end of the word
        if end <= last:
            continue
        between = text[last : max(begin, last)]
        if parts and not any(map(str.isalnum, between)):
            parts[-1] = DELETED
        else:
            parts += [between, DELETED]
        last = end
    rest = text[last:]
    if not any(map(str.isalnum, "".join(part for part in (*parts, rest) if part != DELETED))):
        return ""
    return "".join((*parts, rest))
