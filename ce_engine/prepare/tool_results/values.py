"""A tool result that is JSON as one line of its values, for a block that brings many results back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ce_engine.prepare.tool_results.json_form import SURROGATE, read, write
from ce_engine.schema.json_text import json_text
from ce_engine.schema.text_cache import text_cache


NAMING = 4
"""Characters of a word that names something, at least; of one that is not of ASCII, half as many."""


def words_in(value: Any) -> Iterator[str]:
    """The values in a call's arguments that are long enough to name something."""
    if isinstance(value, dict):
        for item in value.values():
            yield from words_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from words_in(item)
    elif value is not None and not isinstance(value, bool):
        word = str(value)
        if len(word) >= (NAMING if word.isascii() else NAMING // 2) and not SURROGATE.search(word):
            yield word


_SIGNS = re.compile(r"[;|,\"\n\r]")
"""What parts fields, rows and pieces of a line."""

LONG = 20_000
"""Characters; the line of a longer text is made each time: a few hundred of them would be much to keep."""


def values_of(text: str) -> str:
    """What a JSON text says, in about a third of its tokens; any other text as it is.

    An object is its fields, `order_id W1; items Shirt price 20, Mug price 5`: what is inside a field goes
    without names but those of numbers, which say nothing alone, and where one of them has no value. A list of
    alike objects has its names once: `(flight city) HAT1 Rome | HAT2 "New York"`. What is `null` is left out,
    and `-` in such a list. Text that has signs of ours in it is in quotes.
    """
    return _line(text) if len(text) > LONG else _known_line(text)


def _line(text: str) -> str:
    value = read(text)
    try:
        line = _table(value) if isinstance(value, list) else "; ".join(_fields(value or {}))
    except RecursionError:
        return text
    return line if line and len(line) < len(text) and not SURROGATE.search(line) else text


_known_line = text_cache(maxsize=512)(_line)


def _fields(value: dict[str, Any]) -> Iterator[str]:
    for name, item in value.items():
        if item is not None:
            yield f"{name} {_bare(item) or write(item)}"


def _table(rows: Sequence[Any]) -> str:
    """Rows behind a header where they are alike, else one after the other."""
    headers = {_header(row) for row in rows}
    header = headers.pop() if len(headers) == 1 and len(rows) > 1 else ""
    if not header:
        return " | ".join(filter(None, map(_bare, rows)))
    return f"({header}) {' | '.join(' '.join(_cells(row)) for row in rows)}"


def _header(value: Any) -> str:
    """The names of an object's fields, those inside in brackets; of lists inside there are none."""
    if not isinstance(value, dict):
        return ""
    inside = (
        f"{name}({head})" if (head := _header(item)) else name for name, item in value.items()
    )
    return " ".join(inside)


def _cells(value: Any) -> Iterator[str]:
    """The values of a row, each in its place."""
    if isinstance(value, dict) and value:
        for item in value.values():
            yield from _cells(item)
    else:
        cell = _bare(value)
        yield json_text(cell) if " " in cell and cell[:1] != '"' else cell or "-"


def _bare(value: Any) -> str:
    """A value without the names in it, but those that it does not say itself."""
    if isinstance(value, dict):
        texts = {name: _bare(item) for name, item in value.items()}
        parts = [_add_name(name, value[name], text, texts) for name, text in texts.items() if text]
        return (", " if any(isinstance(item, dict) for item in value.values()) else " ").join(parts)
    if isinstance(value, list):
        parts = list(filter(None, map(_bare, value)))
        return (", " if any(isinstance(item, dict | list) for item in value) else " ").join(parts)
    if value is None:
        return ""
    if not isinstance(value, str) or value[:1] == "\x00":
        return write(value)
    return json_text(value) if _SIGNS.search(value) else value


def _add_name(name: str, value: Any, text: str, texts: dict[str, str]) -> str:
    """A field of an object inside: its name where it is a number, one of several objects, or has an empty neighbour."""
    is_text = isinstance(value, str) and value[:1] != "\x00"
    is_number = not (is_text or isinstance(value, dict | list))
    is_one_of = isinstance(value, dict) and len(texts) > 1 and name not in text
    return f"{name} {text}" if is_number or is_one_of or not all(texts.values()) else text
