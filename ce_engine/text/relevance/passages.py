"""Finds known texts inside another one: whole, in parts, numbered, or with other white space (decision 6)."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter as Tally
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeVar


MIN_WHOLE = 24
"""Characters of a known text; shorter ones would be found by chance."""

MIN_PART = 64
"""Characters, without white space, of a part of one; shorter ones may be somebody's quotation.

They count where at least half of the known text stands there.
"""

SEED = 16
"""Characters that begin the comparison: every common part of twice as many is found."""

GAP = 12
"""Characters that may stand between two pieces of one part: an escaped sign, a number, a changed word."""

FEW = 4
"""Places of one seed that are compared: texts may repeat themselves."""

BETWEEN = 240
"""Characters that may stand between two texts that belong together: labels, and what is too short to know."""

MIN_TURNS = 4
"""Messages that make a conversation, where nothing but names of roles tells of one."""

_START = attrgetter("start")
_WORD = re.compile(r"\S+")
_LABEL = re.compile(
    r"^[ \t]*(?:<message\b[^>\n]*>|(?:human|user|ai|assistant|tool|function|用户|助手)[ \t]*[:：])[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_END = "</message>"


class PassageMatch(NamedTuple):
    """Where a known text stands, and which of it: its place among the known ones."""

    start: int
    end: int
    place: int


class Place(Protocol):
    """A stretch of a text."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


P = TypeVar("P", bound=Place)


def clusters(
    places: Iterable[P], between: Callable[[P, P], int] = lambda _before, _after: BETWEEN
) -> list[list[P]]:
    """The places that stand together, in order: with no more characters `between` one and the next."""
    groups = list[list[P]]()
    for place in sorted(places, key=_START):
        if groups and place.start - groups[-1][-1].end <= between(groups[-1][-1], place):
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


class _Part(NamedTuple):
    """A stretch that two texts have in common, in characters without white space."""

    start: int
    end: int
    place: int
    of: int

    @property
    def known_end(self) -> int:
        return self.of + self.end - self.start


class _Packed:
    """A text without its white space, and where each character stands in it."""

    def __init__(self, text: str) -> None:
        self.text = "".join(text.split())
        self._whole = text

    def place(self, n: int) -> int:
        """Where a character stands in the whole text."""
        begins, starts = self._words
        word = bisect_right(begins, n) - 1
        return starts[word] + n - begins[word]

    @cached_property
    def _words(self) -> tuple[list[int], list[int]]:
        """Of each word where it begins without white space before it, and with it."""
        words = list(_WORD.finditer(self._whole))
        ends = accumulate((word.end() - word.start() for word in words), initial=0)
        return list(ends), [word.start() for word in words]


class PassageIndex:
    """Known texts that are looked for in others; what is derived of each is derived once.

    Args:
        known_texts: each as the forms that it may have (live and as stored); the first that is found counts.
    """

    def __init__(self, known_texts: Sequence[Sequence[str]]) -> None:
        self._known = [tuple(dict.fromkeys(forms)) for forms in known_texts]
        self._found: dict[str, Sequence[PassageMatch]] = {}

    def find(self, text: str) -> Sequence[PassageMatch]:
        """Where known texts stand in `text`, in its order; none overlap.

        A known text counts where it stands whole, else in parts that are long enough. A part that
        another one holds as well, of the same text, does not: it is a quotation.
        """
        if text not in self._found:
            self._found[text] = self._searched(text)
        return self._found[text]

    def _searched(self, text: str) -> list[PassageMatch]:
        matches: list[PassageMatch] = []
        missing: set[int] = set()
        for index, forms in enumerate(self._known):
            places = next(filter(None, (_whole(text, form, matches) for form in forms)), [])
            if places:
                matches = sorted(
                    [*matches, *(PassageMatch(start, end, index) for start, end in places)]
                )
            else:
                missing.add(index)
        if missing:
            matches += [*self._parts(text, missing, matches)]
        return sorted(matches)

    @cached_property
    def _forms(self) -> list[tuple[int, str]]:
        """Every form without its white space, and of which known text it is."""
        return [
            (index, "".join(form.split()))
            for index, forms in enumerate(self._known)
            for form in forms
        ]

    @cached_property
    def _seeds(self) -> dict[str, list[tuple[int, int]]]:
        """The seeds of the known texts: (place among the forms, where it stands there)."""
        seeds: dict[str, list[tuple[int, int]]] = {}
        for n, (_, form) in enumerate(self._forms):
            for at in range(0, len(form) - SEED + 1, SEED):
                places = seeds.setdefault(form[at : at + SEED], [])
                if len(places) < FEW or places[-FEW][0] != n:
                    places.append((n, at))
        return seeds

    def _parts(
        self, text: str, missing: Container[int], matches: Sequence[PassageMatch]
    ) -> Iterator[PassageMatch]:
        """Parts of the texts that do not stand whole, in what is left of the text."""
        for begin, end in _left(len(text), matches):
            packed = _Packed(text[begin:end])
            runs = _joined(self._common(packed.text, missing))
            for start, stop, index in _claims(runs, self._forms):
                yield PassageMatch(
                    begin + packed.place(start), begin + packed.place(stop - 1) + 1, index
                )

    def _common(self, text: str, missing: Container[int]) -> Iterator[_Part]:
        """The longest stretches in common, from left to right; `which` is a place among the forms."""
        at, free, forms, seeds = 0, 0, self._forms, self._seeds
        while at + SEED <= len(text):
            places = seeds.get(text[at : at + SEED], ())
            there = islice((p for p in places if forms[p[0]][0] in missing), FEW)
            parts = [_grown(text, forms[n][1], at, of, free, n) for n, of in there]
            if parts:
                part = max(parts, key=lambda part: part.end - part.start)
                yield part
                at = free = part.end
            else:
                at += 1


def _whole(text: str, form: str, matches: Sequence[PassageMatch]) -> list[tuple[int, int]]:
    """Where a known text stands whole and free; `matches` are in order."""
    places, start = [], text.find(form) if len(form) >= MIN_WHOLE else -1
    while start >= 0:
        end = start + len(form)
        after = bisect_left(matches, start, key=_START)
        if (not after or matches[after - 1].end <= start) and (
            after == len(matches) or end <= matches[after].start
        ):
            places.append((start, end))
        start = text.find(form, end)
    return places


def _left(length: int, matches: Sequence[PassageMatch]) -> Iterator[tuple[int, int]]:
    at = 0
    for start, end, _ in sorted(matches):
        yield at, start
        at = end
    yield at, length


def _grown(text: str, form: str, at: int, of: int, free: int, index: int) -> _Part:
    back = same_length(text[free:at][::-1], form[max(0, of - at + free) : of][::-1])
    ahead = same_length(text, form, at, of)
    return _Part(at - back, at + ahead, index, of - back)


def same_length(text: str, other: str, at: int = 0, of: int = 0) -> int:
    """How many characters two texts have alike from these places on; little more than those is read."""
    most, same, step, grows = min(len(text) - at, len(other) - of), 0, SEED, True
    while step and same < most:
        begin, where, size = at + same, of + same, min(step, most - same)
        alike = text[begin : begin + size] == other[where : where + size]
        grows &= alike
        same += size if alike else 0
        step = 2 * step if grows else step // 2
    return same


def _joined(parts: Iterable[_Part]) -> list[list[_Part]]:
    """Parts that go on with one another, but for a few characters."""
    runs: list[list[_Part]] = []
    for part in parts:
        last = runs[-1][-1] if runs else None
        if (
            last is not None
            and last.place == part.place
            and part.start - last.end <= GAP
            and 0 <= part.of - last.known_end <= GAP
        ):
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs


def _claims(
    runs: Sequence[Sequence[_Part]], forms: Sequence[tuple[int, str]]
) -> Iterator[tuple[int, int, int]]:
    """The runs that count: long enough, and no quotations; the longest first."""
    there: Tally[int] = Tally()
    for run in runs:
        there[run[0].place] += run[-1].known_end - run[0].of
    claimed: dict[int, list[tuple[int, int]]] = {}
    for run in sorted(runs, key=lambda run: run[0].start - run[-1].end):
        n, of, end = run[0].place, run[0].of, run[-1].known_end
        least = MIN_WHOLE if 2 * there[n] >= len(forms[n][1]) else MIN_PART
        if end - of >= least and _is_new(claimed.setdefault(n, []), of, end):
            yield run[0].start, run[-1].end, forms[n][0]


def _is_new(claimed: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether no other stretch holds this one; it is noted. They are in order, and none holds another."""
    after = bisect_right(claimed, (start, math.inf))
    if after and claimed[after - 1][1] >= end:
        return False
    first = last = bisect_left(claimed, (start,))
    while last < len(claimed) and claimed[last][1] <= end:
        last += 1
    claimed[first:last] = [(start, end)]
    return True


def written_talk(text: str) -> list[tuple[int, int]]:
    """Where the messages of a conversation stand that is written with the names of roles, in order.

    None where it is less than half of the text: then these may be examples of a prompt.
    """
    labels = list(_LABEL.finditer(text))
    if len(labels) < MIN_TURNS:
        return []
    ends = [label.start() for label in labels[1:]] + [len(text)]
    spans = [
        (
            label.end(),
            label.end() + len(text[label.end() : end].rstrip().removesuffix(_END).rstrip()),
        )
        for label, end in zip(labels, ends, strict=True)
    ]
    return spans if 2 * (spans[-1][0] - spans[0][0]) >= len(text) else []
