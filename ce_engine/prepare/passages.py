"""Finds known texts inside another one: whole, in parts, numbered, or with other white space (decision 6)."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


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

MIN_TURNS = 4
"""Messages that make a conversation, where nothing but names of roles tells of one."""

_WORD = re.compile(r"\S+")
_LABEL = re.compile(
    r"^[ \t]*(?:<message\b[^>\n]*>|(?:human|user|ai|assistant|tool|function|用户|助手)[ \t]*[:：])[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_END = re.compile(r"\s*(?:</message>)?\s*\Z")


class Found(NamedTuple):
    """Where a known text stands, and which of it: its place among the known ones."""

    start: int
    end: int
    which: int


class _Part(NamedTuple):
    """A stretch that two texts have in common, in characters without white space."""

    start: int
    end: int
    which: int
    of: int

    @property
    def known_end(self) -> int:
        return self.of + self.end - self.start


@dataclass(slots=True)
class _Packed:
    """A text without its white space, and where each character stands in it."""

    text: str
    places: Sequence[int]

    @classmethod
    def of(cls, text: str) -> _Packed:
        words = list(_WORD.finditer(text))
        places = [n for word in words for n in range(word.start(), word.end())]
        return cls("".join(word.group() for word in words), places)


def find_passages(text: str, known: Sequence[Sequence[str]]) -> list[Found]:
    """Where known texts stand in `text`, in its order; none overlap.

    A known text counts where it stands whole, else in parts that are long enough. A part that another
    one holds as well, of the same text, does not: it is a quotation.

    Args:
        text: what is searched.
        known: each as the forms that it may have (live and as stored); the first that is found counts.
    """
    found: list[Found] = []
    missing: list[int] = []
    for which, forms in enumerate(known):
        places = next(filter(None, (_whole(text, form, found) for form in forms)), [])
        found += (Found(start, end, which) for start, end in places)
        if not places:
            missing.append(which)
    if missing:
        found += _parts(text, known, missing, found)
    return sorted(found)


def _whole(text: str, known: str, found: Sequence[Found]) -> list[tuple[int, int]]:
    """Where a known text stands whole and free."""
    places, start = [], text.find(known) if len(known) >= MIN_WHOLE else -1
    while start >= 0:
        end = start + len(known)
        if all(end <= other.start or start >= other.end for other in found):
            places.append((start, end))
        start = text.find(known, end)
    return places


def _parts(
    text: str, known: Sequence[Sequence[str]], missing: Sequence[int], taken: Sequence[Found]
) -> Iterator[Found]:
    """Parts of the texts that do not stand whole, in what is left of the text."""
    forms = [
        (which, _Packed.of(form).text) for which in missing for form in dict.fromkeys(known[which])
    ]
    seeds = _seeds(forms)
    if not seeds:
        return
    for begin, end in _left(len(text), taken):
        packed = _Packed.of(text[begin:end])
        for start, stop, which in _claims(_joined(_common(packed.text, forms, seeds)), forms):
            yield Found(begin + packed.places[start], begin + packed.places[stop - 1] + 1, which)


def _left(length: int, taken: Sequence[Found]) -> Iterator[tuple[int, int]]:
    at = 0
    for start, end, _ in sorted(taken):
        yield at, start
        at = end
    yield at, length


def _seeds(forms: Sequence[tuple[int, str]]) -> dict[str, list[tuple[int, int]]]:
    """The seeds of the known texts: (place among the forms, where it stands there)."""
    seeds: dict[str, list[tuple[int, int]]] = {}
    for n, (_, known) in enumerate(forms):
        for at in range(0, len(known) - SEED + 1, SEED):
            places = seeds.setdefault(known[at : at + SEED], [])
            if len(places) < FEW:
                places.append((n, at))
    return seeds


def _common(
    text: str, forms: Sequence[tuple[int, str]], seeds: dict[str, list[tuple[int, int]]]
) -> Iterator[_Part]:
    """The longest stretches in common, from left to right; `which` is a place among the forms."""
    at, free = 0, 0
    while at + SEED <= len(text):
        places = seeds.get(text[at : at + SEED])
        if places is None:
            at += 1
            continue
        part = max(
            (_grown(text, forms[n][1], at, of, free, n) for n, of in places),
            key=lambda part: part.end - part.start,
        )
        yield part
        at = free = part.end


def _grown(text: str, known: str, at: int, of: int, free: int, which: int) -> _Part:
    back = _same(text[free:at][::-1], known[max(0, of - at + free) : of][::-1])
    ahead = _same(text[at : at + len(known) - of], known[of:])
    return _Part(at - back, at + ahead, which, of - back)


def _same(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _joined(parts: Iterable[_Part]) -> list[list[_Part]]:
    """Parts that go on with one another, but for a few characters."""
    runs: list[list[_Part]] = []
    for part in parts:
        last = runs[-1][-1] if runs else None
        if (
            last is not None
            and last.which == part.which
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
        there[run[0].which] += run[-1].known_end - run[0].of
    claimed: dict[int, list[tuple[int, int]]] = {}
    for run in sorted(runs, key=lambda run: run[0].start - run[-1].end):
        n, of, end = run[0].which, run[0].of, run[-1].known_end
        least = MIN_WHOLE if 2 * there[n] >= len(forms[n][1]) else MIN_PART
        quoted = any(low <= of and end <= high for low, high in claimed.get(n, ()))
        if end - of >= least and not quoted:
            claimed.setdefault(n, []).append((of, end))
            yield run[0].start, run[-1].end, forms[n][0]


def written_talk(text: str) -> list[tuple[int, int]]:
    """Where the messages of a conversation stand that is written with the names of roles, in order.

    None where it is less than half of the text: then these may be examples of a prompt.
    """
    labels = list(_LABEL.finditer(text))
    if len(labels) < MIN_TURNS:
        return []
    ends = [label.start() for label in labels[1:]] + [len(text)]
    found = [
        (label.end(), label.end() + len(_END.sub("", text[label.end() : end])))
        for label, end in zip(labels, ends, strict=True)
    ]
    return found if 2 * (found[-1][0] - found[0][0]) >= len(text) else []
