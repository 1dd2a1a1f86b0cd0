"""Text as the patterns read it: digits and separators of all scripts, what hides between, and escapes made plain."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from unicodedata import normalize

from ce_engine.schema.time_limits import breathe, breathing
from ce_engine.text.unseen import SIGNS


HOLE = "\ufdd0"
"""Stands where something was already taken out; Unicode promises that no text uses it."""

_FULL_WIDTH = "".join(
    map(chr, (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B)))
)
_ZEROS = (
    "660 6f0 7c0 966 9e6 a66 ae6 b66 be6 c66 ce6 d66 de6 e50 ed0 f20 1040 1090 17e0 1810 1946 "
    "19d0 1a80 1a90 1b50 1bb0 1c40 1c50 a620 a8d0 a900 a9d0 a9f0 aa50 abf0 104a0 10d30 11066 "
    "110f0 11136 111d0 112f0 11450 114d0 11650 116c0 11730 118e0 11950 11c50 11d50 11da0 "
    "16a60 16ac0 16b50 1d7ce 1d7d8 1d7e2 1d7ec 1d7f6 1e140 1e2f0 1e950 1fbf0 "
)
"""The first digit of each script that has ten of them, in Unicode 14."""
_STYLED = "".join(map(chr, range(0x1D400, 0x1D7CE)))  # bold, italic and the like, for formulas
_FORMS = f"{_FULL_WIDTH}{_STYLED}＠﹫．﹒－＋﹢＿＃﹟"
_PLAIN = {sign: same for sign in _FORMS if (same := normalize("NFKC", sign)).isascii()}
_PLAIN |= {chr(int(zero, 16) + n): str(n) for zero in _ZEROS.split() for n in range(10)}
_PLAIN |= dict.fromkeys("\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008", " ")
_PLAIN |= dict.fromkeys("\u2009\u200a\u202f\u205f\u3000", " ")
_PLAIN |= dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63", "-")
_PLAIN_TABLE = str.maketrans(_PLAIN)
_PIECE = 1 << 16
_INVISIBLE = re.compile(SIGNS)
# Of a terminal's sequences those that colour and erase: none takes digits or letters with it that may be a
# secret's, so the parameters are short numbers, and without one only a few letters end it. Of a link
# (`ESC ] 8 ;; address ESC \`) the address stays to be read.
_ESC = r"(?:\x1b|(?<!\\)\\++(?:[xX]1[bB]|033|[eE])(?=[\[\]]))"
_UNSEEN = re.compile(
    rf"(?:{_ESC}\[|\x9b)(?:[?>]?[0-9]{{1,4}}(?:[;:][0-9]{{0,4}}){{0,32}}(?:[ -/]?[@-Z\\^-~]|\Z)|[mKJH]|\Z)"
    rf"|(?:{_ESC}\]|\x9d)8;[^;\s\x07\x1b\x9c\x9d\\]{{0,64}};(?P<link>[^\s\x07\x1b\x9c\x9d\\]{{0,2000}})"
    rf"(?:[\x07\x9c]|\x1b\\{{1,2}})?|{SIGNS}"
)
_CONTROLS = (
    "\x7f",
    *map(chr, range(0x09)),
    *map(chr, range(0x0E, 0x1C)),
    "\x1f",
    "\\x1",
    "\\X1",
    "\\033",
    "\\e",
    "\\E",
)
"""Without one of them there is nothing unseen in ASCII."""
_NAMED = {"nbsp": " ", "ensp": " ", "emsp": " ", "thinsp": " ", "hyphen": "-", "dash": "-", "shy": ""} | {
    "colon": ":", "equals": "=", "period": ".", "commat": "@", "zwj": "", "zwnj": ""
}  # fmt: skip
"""A page's names of signs that stand in what is looked for, or hide in it."""
_AT = r"%(?:25)?40(?=[A-Za-z0-9-]{1,63}\.[A-Za-z])"  # of a URL; elsewhere it may be a price
_AMPERSAND = (
    r"(?:&|(?<!\\)\\++u0026)(?:amp;){0,2}+"  # Go's JSON writes `\u0026`; a page in a page `&amp;`
)
_HIDDEN = re.compile(
    rf"{_AMPERSAND}(?:#(?:0*+(?P<code>[0-9]{{2,6}})(?![0-9])|[xX]0*+(?P<hex>[0-9a-fA-F]{{2,5}})(?![0-9a-fA-F]));?"
    rf"|(?P<name>{'|'.join(_NAMED)});)"
    r"|(?<!\\)\\++u(?P<json>[0-9a-fA-F]{4})"
    rf"|(?P<deep>(?<!\\)\\++ (?=\"))|(?P<at>{_AT})"
)
_HINTS = ("\\u", '\\ "', "&#", "&amp;", "%40", "%2540", *(f"&{name};" for name in _NAMED))
"""Without one of them there is nothing to look for in ASCII."""
_SHORT_ESCAPES = (("\\n", "\n\n"), ("\\r", "\n\n"), ("\\t", "  "), ('\\"', ' "'), ("\\/", " /"))


def readable(text: str) -> tuple[str, Callable[[int], int]]:
    r"""Return the text made plain, and what leads from an offset in it to the one in `text`.

    Escapes as JSON writes them (`\u5bc6\u7801`, `\n13800138000`), also in JSON inside JSON, become what they
    stand for, because a tool's result is often JSON with everything but ASCII escaped; so do a page's
    (`ann&#64;example.com`), and the sign of a mail address in a URL (`ann%40example.com`). What nobody sees vanishes.
    """
    view, origin = decoded(text)
    if any(map(view.__contains__, _CONTROLS)) or (not view.isascii() and _INVISIBLE.search(view)):
        view, back = substitute(view, _unseen(view))
        origin = _both(origin, back)
    if not view.isascii():
        view = "".join(view[at : at + _PIECE].translate(_PLAIN_TABLE) for at in _pieces(view))
    return view, origin


def _pieces(view: str) -> Iterator[int]:
    """Where pieces of a text begin: all other threads wait for one."""
    for at in range(0, len(view), _PIECE):
        breathe()
        yield at


def decoded(text: str) -> tuple[str, Callable[[int], int]]:
    """The same of the text's escapes alone."""
    view = text
    if "\\" in view:
        for escape, plain in _SHORT_ESCAPES:  # of the same length: offsets stay
            view = view.replace(escape, plain)
    if not any(map(view.__contains__, _HINTS)):
        return view, _same
    return substitute(view, ((*cut.span(), _decode_escape(cut)) for cut in _HIDDEN.finditer(view)))


def _unseen(view: str) -> Iterator[tuple[int, int, str]]:
    """What nobody sees, to be cut; the address of a link stays, apart from what stands beside it."""
    for cut in _UNSEEN.finditer(view):
        if cut["link"]:
            yield cut.start(), cut.start("link"), " "
            yield cut.end("link"), cut.end(), " "
        else:
            yield *cut.span(), ""


def _both(first: Callable[[int], int], second: Callable[[int], int]) -> Callable[[int], int]:
    return second if first is _same else lambda offset: first(second(offset))


def _decode_escape(cut: re.Match[str]) -> str:
    """What an escape stands for; nothing for NUL."""
    if cut["at"]:
        return "@"
    if cut[
        "deep"
    ]:  # of a quote in JSON inside JSON inside JSON, whose last escape is a blank by now
        return " "
    if cut["name"]:
        return _NAMED[cut["name"]]
    code = int(cut["json"] or cut["hex"] or "0", 16) or int(cut["code"] or 0)
    return chr(code) if code else ""


def _same(offset: int) -> int:
    return offset


def substitute(text: str, cuts: Iterable[tuple[int, int, str]]) -> tuple[str, Callable[[int], int]]:
    """Return the text with a sign, or none, in each place cut, and what leads back to its offsets.

    `cuts` are (start, end, sign) in order.
    """
    pieces: list[str] = []
    places, origins = [0], [0]  # where a stretch begins, in the result and in the text
    length = done = 0
    for start, end, sign in breathing(cuts):
        pieces += (text[done:start], sign)
        length += start - done + len(sign)
        places.append(length)
        origins.append(end)
        done = end
    if not pieces:
        return text, _same
    pieces.append(text[done:])

    def origin(offset: int) -> int:
        stretch = bisect_right(places, offset) - 1
        return origins[stretch] + offset - places[stretch]

    return "".join(pieces), origin


def around(text: str, sign: str, reach: int) -> list[str]:
    """Return the parts of the text within `reach` of any occurrence of a sign."""
    parts: list[tuple[int, int]] = []
    at = text.find(sign)
    while at >= 0:
        breathe()
        first = max(0, at - reach)
        if parts and first <= parts[-1][1]:
            first = parts.pop()[0]
        parts.append((first, at + reach))
        at = text.find(sign, at + 1)
    return [text[first:last] for first, last in breathing(parts)]
