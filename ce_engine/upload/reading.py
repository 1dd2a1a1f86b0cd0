"""Text as the patterns read it: full-width forms, exotic separators and JSON escapes made plain."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable


HOLE = "\ufdd0"
"""Stands where something was already taken out; Unicode promises that no text uses it."""

_PLAIN = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full-width ASCII
_PLAIN |= dict.fromkeys("\xa0\u2007\u2009\u202f\u3000", " ")
_PLAIN |= dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63", "-")
_EXOTIC = re.compile(
    "[０-９Ａ-Ｚａ-ｚ＠．－＋＿＃\xa0\u2007\u2009\u202f\u3000\u2010-\u2013\u2212\ufe63]"
)
_INVISIBLE = re.compile("[\u200b-\u200d\u2060\ufeff\xad]")
_ESCAPED_OR_INVISIBLE = re.compile(rf"\\u([0-9a-fA-F]{{4}})|{_INVISIBLE.pattern}")
_SHORT_ESCAPES = (("\\n", "\n\n"), ("\\r", "\n\n"), ("\\t", "  "), ('\\"', ' "'), ("\\/", " /"))


def readable(text: str) -> tuple[str, Callable[[int], int]]:
    r"""Return the text made plain, and what leads from an offset in it to the one in `text`.

    Escapes as JSON writes them (`\u5bc6\u7801`, `\n13800138000`) become what they stand for, because
    a tool's result is often JSON with everything but ASCII escaped; invisible characters vanish.
    """
    view = text
    origin: Callable[[int], int] = _same
    if "\\" in view:
        for escape, plain in _SHORT_ESCAPES:  # of the same length: offsets stay
            view = view.replace(escape, plain)
    if "\\u" in view or (not view.isascii() and _INVISIBLE.search(view)):
        view, origin = _without_escapes(view)
    if not view.isascii():
        view = _EXOTIC.sub(lambda found: _PLAIN[found[0]], view)
    return view, origin


def _same(offset: int) -> int:
    return offset


def _without_escapes(text: str) -> tuple[str, Callable[[int], int]]:
    pieces: list[str] = []
    places, origins = [0], [0]  # where a stretch begins, in the result and in the text
    length = done = 0
    for found in _ESCAPED_OR_INVISIBLE.finditer(text):
        sign = chr(int(found[1], 16)) if found[1] else ""
        pieces += (text[done : found.start()], sign)
        length += found.start() - done
        if sign:
            places.append(length)
            origins.append(found.start())
            length += 1
        done = found.end()
        places.append(length)
        origins.append(done)
    if not pieces:
        return text, _same
    pieces.append(text[done:])

    def origin(offset: int) -> int:
        stretch = bisect_right(places, offset) - 1
        return origins[stretch] + offset - places[stretch]

    return "".join(pieces), origin


def blank(text: str, bounds: Iterable[tuple[int, int]]) -> str:
    """Return the text with holes of the same length in the places of `bounds`, which are in order."""
    pieces: list[str] = []
    done = 0
    for start, end in bounds:
        pieces += (text[done:start], HOLE * (end - start))
        done = end
    return "".join((*pieces, text[done:]))


def around(text: str, bounds: Iterable[tuple[int, int]], reach: int) -> list[str]:
    """Return the parts of the text within `reach` of any of `bounds`, which are in order."""
    parts: list[tuple[int, int]] = []
    for start, end in bounds:
        first = max(0, start - reach)
        if parts and first <= parts[-1][1]:
            first = parts.pop()[0]
        parts.append((first, end + reach))
    return [text[first:last] for first, last in parts]
