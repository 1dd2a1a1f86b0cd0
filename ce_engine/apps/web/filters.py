"""How templates show values. What was stored is anybody's text: escaped, and what steers is made visible."""

from __future__ import annotations

import re

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


def seen(value: object) -> object:
    """Any value of a template on its way out: a text's control characters become their names.

    It is Jinja's `finalize`, so no template can forget it; attributes may hold it.
    """
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def visible(text: object) -> Markup:
    """A text for a page's body, with what would steer it as marked signs: control characters, ANSI, bidi."""
    plain = re.sub(r"\r\n?", "\n", str(text))
    parts: list[str | Markup] = []
    end = 0
    for found in CONTROL.finditer(plain):
        parts += [escape(plain[end : found.start()]), _sign(found.group())]
        end = found.end()
    return Markup().join([*parts, escape(plain[end:])])


def _sign(character: str) -> Markup:
    name = printable(character)
    return Markup('<span class="control">{}</span>').format(name)


FILTERS = {
    "change": change,
    "moment": moment,
    "number": number,
    "percent": percent,
    "short_id": short_id,
    "visible": visible,
}
