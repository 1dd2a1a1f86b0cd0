"""How templates show values. What was stored is anybody's text: escaped, and what steers is made visible."""

from __future__ import annotations

import re
from itertools import zip_longest

from markupsafe import Markup, escape

from ce_engine.apps.present.output import (
    CONTROL,
    change,
    moment,
    number,
    percent,
    printable,
    short_id,
)


def finalize(value: object) -> object:
    """Any value of a template on its way out: a text's control characters become their names.

    It is Jinja's `finalize`, so no template can forget it; attributes may hold it.
    """
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def visible(text: object, find: str = "") -> Markup:
    """A text for a page's body, with what would steer it as marked signs: control characters, ANSI, bidi.

    Where `find` stands in it, whatever the case of its letters, is marked.
    """
    plain = re.sub(r"\r\n?", "\n", str(text))
    if not find:
        return _visible(plain)
    # In a group of its own: every second part is a place.
    parts = re.split(f"({re.escape(find)})", plain, flags=re.IGNORECASE)
    marks = (Markup("<mark>{}</mark>").format(_visible(part)) for part in parts[1::2])
    plains = map(_visible, parts[::2])
    return Markup().join(part for pair in zip_longest(plains, marks, fillvalue="") for part in pair)


def _visible(plain: str) -> Markup:
    parts: list[str | Markup] = []
    end = 0
    for match in CONTROL.finditer(plain):
        parts += [escape(plain[end : match.start()]), _sign(match.group())]
        end = match.end()
    return Markup().join([*parts, escape(plain[end:])])


def beginning(text: str, limit: int, find: str = "") -> int:
    """Where the part of a long text begins that is shown: at its start, else a little before `find`."""
    at = text.casefold().find(find.casefold()) if find else -1
    return 0 if at + len(find) <= limit else max(0, at - limit // 4)


def _sign(character: str) -> Markup:
    name = printable(character)
    return Markup('<span class="control">{}</span>').format(name)


FILTERS = {
    "beginning": beginning,
    "change": change,
    "moment": moment,
    "number": number,
    "percent": percent,
    "short_id": short_id,
    "visible": visible,
}
