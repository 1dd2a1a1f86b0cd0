r"""Finds a deleted text in other texts, whole or in passages, and takes it out of them (A-30).

Compared are characters without white space and without what nobody sees, in any case of letters, and what
JSON or HTML writes otherwise (`\u5317`, `\n`, `&amp;`, `&#0032`) as it is, however often it was escaped: none
of that is what a text says. What is there in other words is not found; who deletes is told which answers may
have it.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from html import unescape
from html.entities import html5
from typing import Any
from unicodedata import east_asian_width

from ce_engine.text.unseen import CONTROLS, JOINERS, SEQUENCE, SIGNS, WITHOUT_WIDTH


PASSAGE = 24
"""As many characters in a row are a passage; in a text mostly of wide characters half as many."""
SHORTEST = 4
"""A text of fewer letters and digits (wide ones count twice) is taken out only where nothing else stands."""
DELETED = "[deleted]"
"""Stands where a passage was."""

_SAMPLE = 2000
_INDEXED_WHOLE = 200_000
"""Of a longer text the places are looked up in steps, to save memory; then every place of the others is."""
_DOT = "\u0307"
"""The dot above: the lower case of `İ` has it beside an `i`."""

# However often a text was escaped, it comes out as it does itself: backslashes say nothing, but for what is behind them.
_AMPERSAND = r"(?:amp|#0*+38(?!\d)|#[xX]0*+26(?![\da-fA-F]));?+"
_NUMBER = r"#(?=\d)0*+\d{0,7}(?!\d);?|#[xX](?=[\da-fA-F])0*+[\da-fA-F]{0,6}(?![\da-fA-F]);?"
_BARE = "|".join(sorted((name for name in html5 if name[-1] != ";"), key=len, reverse=True))
"""Names that HTML reads without a semicolon, too, whatever follows."""
_UNSEEN = CONTROLS + WITHOUT_WIDTH + JOINERS
_PIECE = re.compile(
    rf"(?P<unseen>{SEQUENCE}|\\++u001[bB]\[[0-?]*[ -/]*[@-~]|[{_UNSEEN}]+)"
    rf"|(?:&|\\++u0026)(?P<entity>(?:{_AMPERSAND})*(?:{_NUMBER}|[A-Za-z][\dA-Za-z]{{1,31}};|{_BARE}))"
    r"|\\++(?P<escape>(?i:ud[89ab][\da-f]{2}\\++ud[c-f][\da-f]{2}|u[\da-f]{4}|[bfnrt\"'/]|))"
    rf"|[^\s\\&{_UNSEEN}]+|&"
)
_AMPERSANDS = re.compile(rf"^(?:{_AMPERSAND})+(?=.)")
_BARE_NAME = re.compile(_BARE)
_ZEROS = re.compile(r"^(#[xX]?)0+(?=[\da-fA-F])")
_HIDDEN = re.compile(SIGNS)
_SIGN = re.compile(f".{_DOT}*", re.DOTALL)


def _pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """What a text says, piece by piece: where it stands, how long it is there, and what it says."""
    for match in _PIECE.finditer(text):
        run, start = match[0], match.start()
        if match.lastgroup:
            source = match[match.lastgroup]
            behind = _behind(source) if match.lastgroup == "entity" else ""
            plain_text = _unescaped(match.lastgroup, source.removesuffix(behind))
            yield (
                start,
                len(run) - len(behind),
                "".join(_HIDDEN.sub("", _folded(plain_text)).split()),
            )
            if behind:
                yield match.end() - len(behind), len(behind), behind.casefold()
        elif len(plain_text := _folded(run)) == len(run) and _DOT not in run:
            yield start, len(run), plain_text
        else:
            for sign in _SIGN.finditer(run):
                yield start + sign.start(), len(sign[0]), _folded(sign[0][0])


def _folded(text: str) -> str:
    """In one case, with one `i` for those with and without a dot: which is whose differs by language."""
    return text.replace("İ", "i").replace("ı", "i").replace(_DOT, "").casefold()


def _behind(source: str) -> str:
    """What is none of an entity: `Wang;` of `nbspWang;`."""
    name = _AMPERSANDS.sub("", source)
    if name in html5 or name[0] == "#" or not (bare := _BARE_NAME.match(name)):
        return ""
    return name[bare.end() :]


def _unescaped(kind: str, source: str) -> str:
    """The character; nothing where it is white space, nobody sees it, or it was a backslash alone."""
    if kind == "unseen":
        return ""
    if kind == "entity":
        return unescape("&" + _ZEROS.sub(r"\1", _AMPERSANDS.sub("", source)))
    source = source.lower()
    if source.startswith("u"):
        codes = [int(code, 16) for code in source.replace("\\", "").split("u")[1:]]
        halves = "".join(map(chr, codes)).encode("utf-16", "surrogatepass")
        return halves.decode("utf-16", "surrogatepass")
    return {"b": "\b"}.get(source, "" if source.isalpha() else source)


class _Plain:
    """What a text says, with the way back to its places."""

    __slots__ = ("_begins", "_places", "text")

    def __init__(self, text: str) -> None:
        pieces: list[str] = []
        self._begins: list[int] = []
        self._places: list[tuple[int, int, bool]] = []
        length = 0
        for start, width, piece in _pieces(text):
            if piece:
                self._begins.append(length)
                self._places.append((start, start + width, len(piece) == width))
                pieces.append(piece)
                length += len(piece)
        self.text = "".join(pieces)

    def place(self, index: int) -> tuple[int, int]:
        """From where to where the character stands in the whole text."""
        piece = bisect_right(self._begins, index) - 1
        start, end, is_as_written = self._places[piece]
        if not is_as_written:
            return start, end
        at = start + index - self._begins[piece]
        return at, at + 1

    def goes_on(self, index: int) -> bool:
        """Whether a word does, from the character before; scripts of wide ones have no spaces between words."""
        if not 0 < index < len(self.text):
            return False
        signs = self.text[index - 1], self.text[index]
        if not all(sign.isalnum() and not _is_wide(sign) for sign in signs):
            return False
        return self.place(index - 1)[1] >= self.place(index)[0]


class Quotations:
    """What of one deleted text stands in others."""

    def __init__(self, text: str) -> None:
        own = self._text = _Plain(text).text
        sample = own[:_SAMPLE]
        is_wide = 2 * sum(map(_is_wide, sample)) > len(sample)
        self._least = least = PASSAGE // 2 if is_wide else PASSAGE
        # Half a passage is looked for first, in steps on one side: each passage has such a one in it.
        self._gram = gram = least // 2
        in_steps = len(own) > _INDEXED_WHOLE
        self._step = 1 if in_steps else gram
        places = range(0, len(own) - gram + 1, gram if in_steps else 1)
        self._grams = {own[at : at + gram] for at in places}
        self._passages_there = [*_numbered(own, least)]

    def __bool__(self) -> bool:
        return any(map(str.isalnum, self._text))

    def without(self, text: str, *, passages_only: bool = False) -> str:
        """The text without what it quotes, itself if it quotes nothing; empty if nothing else is in it."""
        plain = _Plain(text)
        spans = [*self._passages(plain.text)]
        if not passages_only and len(self._text) < self._least:
            spans += self._short(plain)
        return _cut(text, plain, spans) if spans else text

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
        """All that is in a passage, wherever it stands in the text: stretches, in order."""
        tried = 0  # up to where it is known what begins there
        for at in range(0, len(other) - self._gram + 1, self._step):
            if other[at : at + self._gram] not in self._grams:
                continue
            for start in range(max(at + self._gram - self._least, tried), at + 1):
                tried = start + 1
                if self._is_there(other, start):
                    end = self._end(other, start + self._least)
                    yield start, end
                    tried = end + 1
                    break

    def _end(self, other: str, end: int) -> int:
        """Up to where passages go on that begin within or right behind the one that ends there."""
        while True:
            starts = range(end, end - self._least, -1)
            start = next((position for position in starts if self._is_there(other, position)), None)
            if start is None:
                return end
            end = start + self._least

    def _is_there(self, other: str, start: int) -> bool:
        """Whether the passage that begins there is one of the text."""
        passage = other[start : start + self._least]
        if len(passage) < self._least:
            return False
        number = hash(passage)
        for there in self._passages_there:
            at = bisect_left(there, number)
            if at < len(there) and there[at] == number:
                return True
        return False

    def _short(self, plain: _Plain) -> Iterator[tuple[int, int]]:
        """A text too short for passages: where all of it stands, as words of its own."""
        own = self._text
        if plain.text == own:
            yield 0, len(own)
            return
        if sum(1 + _is_wide(sign) for sign in own if sign.isalnum()) < SHORTEST:
            return
        at = plain.text.find(own)
        while own and at >= 0:
            if not (plain.goes_on(at) or plain.goes_on(at + len(own))):
                yield at, at + len(own)
            at = plain.text.find(own, at + 1)


def _numbered(text: str, length: int) -> Iterator[array[int]]:
    """All passages of a text by number, part by part, in order: eight bytes each, as a text may be of millions."""
    places = len(text) - length + 1
    for begin in range(0, places, _INDEXED_WHOLE):
        part = range(begin, min(begin + _INDEXED_WHOLE, places))
        yield array("q", sorted({hash(text[at : at + length]) for at in part}))


def _is_wide(sign: str) -> bool:
    return sign > "\u10ff" and east_asian_width(sign) in "WF"


def _cut(text: str, plain: _Plain, spans: list[tuple[int, int]]) -> str:
    """The text with a word for each span, whole words with them; empty if nothing is left to say."""
    parts: list[str] = []
    plain_text = plain.text
    last, behind = 0, 0  # the first character that is left, and where the text goes on
    is_left = False
    for start, end in sorted(spans):
        if end <= last:
            continue
        begin = max(start, last)
        while begin > last and plain.goes_on(begin):
            begin -= 1
        while plain.goes_on(end):
            end += 1  # noqa: PLW2901 - to the end of the word
        says = any(map(str.isalnum, plain_text[last:begin]))
        is_left |= says
        if parts and not says:
            parts[-1] = DELETED
        else:
            parts += [text[behind : plain.place(begin)[0]], DELETED]
        last, behind = end, plain.place(end - 1)[1]
    if not (is_left or any(map(str.isalnum, plain_text[last:]))):
        return ""
    return "".join((*parts, text[behind:]))
