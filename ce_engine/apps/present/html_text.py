"""Stored text in HTML: escaped, and what would hide or turn round is shown instead of obeyed."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import accumulate, groupby
from operator import itemgetter


SHOWN_CHARS = 4_000
"""Characters of a text that are shown at once; the rest is a click away."""

DIFF_CHARS = 20_000
"""Characters of both texts together that are compared word by word; longer ones are compared line by line."""

DIFF_LINES = 1_000
"""Lines of both that are compared at all."""

DIFF_STEPS = 3_000_000
"""Steps of a comparison, some tenths of a second: texts of the same words over and over take the cube of their length."""

CONTEXT = 160
"""Characters that a difference keeps on each side of what is equal, in the middle of it."""

_CRLF = re.compile(r"\r\n?")
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
_WORD = re.compile(r"\s+|\w+|([^\w\s])\1*")
_CJK = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")


def visible(text: str) -> str:
    """A text for HTML. Control, direction and invisible characters stand there as what they are called."""
    lines = _CRLF.sub("\n", text)
    parts, at = [], 0
    for match in _HIDDEN.finditer(lines):
        parts.append(escape(lines[at : match.start()]))
        parts.append(f'<span class="char">{_name(match.group())}</span>')
        at = match.end()
    return "".join(parts) + escape(lines[at:])


def plain(text: str) -> str:
    """A text for an attribute or a title: escaped, on one line, hidden characters by name."""
    return escape(_HIDDEN.sub(lambda m: _name(m.group()), " ".join(text.split())))


def _name(character: str) -> str:
    code = ord(character)
    return {0x1B: "ESC"}.get(code, f"U+{code:04X}")


def clip(text: str, chars: int = SHOWN_CHARS) -> tuple[str, int]:
    """The beginning of a text, and how many characters are behind it."""
    return (text, 0) if len(text) <= chars else (text[:chars], len(text) - chars)


def line(text: str, chars: int = 160) -> str:
    """A text on one line, at most so many characters; not escaped."""
    flat = " ".join(text[: 8 * chars].split())
    return flat if len(flat) <= chars else f"{flat[: chars - 1]}…"


Piece = tuple[str, str]
"""What became of a stretch of text (`same`, `gone`, `new`, or `skipped` for how many characters), and it."""


def difference(before: str, after: str, context: int = CONTEXT) -> list[Piece]:
    """What became of a text, in stretches, word by word; long equal stretches by their ends only.

    What both end with, and begin with, stays as it is: what was put before a question may have its words, too.
    """
    grows = after.startswith(before) or before.startswith(after)
    tail = 0 if grows else _common_lines(before[::-1], after[::-1])
    middle = before[: len(before) - tail], after[: len(after) - tail]
    head = _common_lines(*middle)
    pieces = [
        ("same", before[:head]),
        *_different(middle[0][head:], middle[1][head:]),
        ("same", before[len(before) - tail :]),
    ]
    return list(_shortened(_joined(pieces), context))


def _different(before: str, after: str) -> Iterator[Piece]:
    if not (before and after):
        yield from (("gone", before), ("new", after))
    elif len(before) + len(after) <= DIFF_CHARS:
        yield from _compared(_words(before), _words(after))
    else:
        first, second = before.splitlines(keepends=True), after.splitlines(keepends=True)
        is_long = len(first) + len(second) > DIFF_LINES
        yield from _ends(before, after) if is_long else _compared(first, second)


def _common_lines(first: str, other: str) -> int:
    """How many characters two texts begin with in common: of whole lines, or all of one of them."""
    same = _common(first, other)
    return same if same == min(len(first), len(other)) else first.rfind("\n", 0, same) + 1


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same with neighbours of one kind as one."""
    for kind, run in groupby((piece for piece in pieces if piece[1]), key=itemgetter(0)):
        yield kind, "".join(text for _, text in run)


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in _WORD.finditer(text):
        words += [part for part in _CJK.split(word[0]) if part]
    return words


class _Matcher(difflib.SequenceMatcher[str]):
    """Finds what is equal, within `DIFF_STEPS`; what is left then is as good as different."""

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        super().__init__(str.isspace, before, after, autojunk=len(before) > 2_000)
        there = Counter(after)
        self._steps = [0, *accumulate(1 + there[word] * (not word.isspace()) for word in before)]
        self._left = DIFF_STEPS

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        self._left -= self._steps[-1 if ahi is None else ahi] - self._steps[alo]
        if self._left < 0:
            return difflib.Match(alo, blo, 0)
        return super().find_longest_match(alo, ahi, blo, bhi)


def _compared(before: Sequence[str], after: Sequence[str]) -> Iterator[Piece]:
    for kind, i, j, k, m in _Matcher(before, after).get_opcodes():
        if kind == "equal":
            yield "same", "".join(before[i:j])
            continue
        if j > i:
            yield "gone", "".join(before[i:j])
        if m > k:
            yield "new", "".join(after[k:m])


def _ends(before: str, after: str) -> Iterator[Piece]:
    """Of texts too long to compare: what they begin and end with in common, and what is between."""
    head = _common(before, after)
    first, second = before[head:], after[head:]
    tail = _common(first[::-1], second[::-1])
    middle = len(first) - tail
    old, new = first[:middle], second[: len(second) - tail]
    pieces = [("same", before[:head]), ("gone", old), ("new", new), ("same", first[middle:])]
    yield from (piece for piece in pieces if piece[1])


def _common(first: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    pairs = enumerate(zip(first, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(first), len(other)))


def _shortened(pieces: Iterator[Piece], context: int) -> Iterator[Piece]:
    """The same, without the middle of what is equal."""
    for kind, text in pieces:
        if kind != "same" or len(text) <= 3 * context:
            yield kind, text
            continue
        yield "same", text[:context]
        yield "skipped", str(len(text) - 2 * context)
        yield "same", text[-context:]


__all__ = ["SHOWN_CHARS", "Piece", "clip", "difference", "line", "plain", "visible"]
