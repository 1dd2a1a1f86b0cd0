"""Text as the patterns read it: full-width forms, exotic separators and JSON escapes made plain."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable

from ce_engine.schema.time_limits import breathe, breathing


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
        cuts = _ESCAPED_OR_INVISIBLE.finditer(view)
        view, origin = substitute(
            view, ((*cut.span(), chr(int(cut[1], 16)) if cut[1] else "") for cut in cuts)
        )
    if not view.isascii():
        view = _EXOTIC.sub(lambda found: _PLAIN[found[0]], view)
    return view, origin


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
