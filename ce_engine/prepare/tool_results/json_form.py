"""JSON in fewer tokens that says the same: no space, rows under one header, of a known object what changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


MAX_CHARS = 1_000_000
"""A longer text is left as it is: reading it takes longer than a call may."""

EVERY, COLUMNS, ROWS = "every", "columns", "rows"
"""What a list of alike objects becomes: what all of them share, the names of the rest, and a row each."""

_LITERAL = "\x00"
"""Marks numbers as they are written: `1.10` is not to become `1.1`."""
_WRITTEN = re.compile(r'"\\u0000([^"]*)"')
SURROGATE = re.compile("[\ud800-\udfff]")


def read(text: str) -> Any:
    """The value of a JSON object or list; `None` for any other text, and for what is ambiguous."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > MAX_CHARS:
        return None
    if _LITERAL in text or "\\u0000" in text:
        return None
    try:
        return json.loads(
            text, parse_float=_literal, parse_constant=_literal, object_pairs_hook=_object
        )
    except (ValueError, RecursionError):
        return None


def write(value: Any) -> str:
    """A value that was `read`, without space."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return _WRITTEN.sub(r"\1", text)


def compact(value: Any) -> str | None:
    """The same in fewer characters, lists of alike objects as rows; `None` where that cannot be told."""
    try:
        text = write(value if _has_header(value) else _tabled(value))
    except (ValueError, RecursionError):
        return None
    return None if SURROGATE.search(text) else text


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What of `new` is not as in `old`, objects inside by their own fields; and the paths that are gone."""
    other: dict[str, Any] = {}
    missing = [name for name in old if name not in new]
    for name, value in new.items():
        old_value = old.get(name)
        if name in old and _same(old_value, value):
            continue
        if isinstance(value, dict) and isinstance(old_value, dict):
            inside, missing_inside = changed(old_value, value)
            missing += [f"{name}.{path}" for path in missing_inside]
            if inside:
                other[name] = inside
        else:
            other[name] = value
    return other, missing


def _literal(text: str) -> str:
    return f"{_LITERAL}{text}"


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("an object has two fields of one name")
    return fields


def _has_header(value: Any) -> bool:
    """Whether somebody else's object looks like ours."""
    if isinstance(value, list):
        return any(map(_has_header, value))
    if not isinstance(value, dict):
        return False
    return (COLUMNS in value and ROWS in value) or any(map(_has_header, value.values()))


def _tabled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tabled(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    plain = [_tabled(item) for item in value]
    table = _table(value)
    return plain if table is None or len(write(table)) >= len(write(plain)) else table


def _table(value: list[Any]) -> dict[str, Any] | None:
    """The header and rows of alike objects, or of lists of them; `None` for anything else."""
    objects = list(_objects(value))
    names = list(objects[0]) if objects and all(objects) else []
    if len(objects) < 2 or not names or any(item.keys() != set(names) for item in objects):
        return None
    first = objects[0]
    shared = [n for n in names if all(_same(item[n], first[n]) for item in objects)]
    columns = [n for n in names if n not in shared]

    def row(item: Any) -> Any:
        if isinstance(item, list):
            return [row(inner) for inner in item]
        fields = _flat(item)
        return [_tabled(fields[name]) for name in columns]

    every = {EVERY: {name: _tabled(first[name]) for name in shared}} if shared else {}
    return {**every, COLUMNS: columns, ROWS: [row(item) for item in value]}


def _same(value: Any, other: Any) -> bool:
    """Whether two values are written alike: `1` is not `true`, inside others neither."""
    if type(value) is not type(other) or value != other:
        return False
    if isinstance(value, dict):
        return all(_same(item, other[name]) for name, item in value.items())
    if isinstance(value, list):
        return all(map(_same, value, other))
    return True


def _objects(value: list[Any]) -> Iterator[dict[str, Any]]:
    """The objects of a list, or of a list of lists, with objects inside flattened; an empty one for others."""
    for item in value:
        if isinstance(item, dict):
            yield _flat(item)
        elif isinstance(item, list) and item and all(isinstance(inner, dict) for inner in item):
            yield from map(_flat, item)
        else:
            yield {}


def _flat(value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The fields of an object and of those inside it, by their paths; names with dots are no paths."""
    if any("." in name for name in _names(value)):
        return dict(value)
    fields: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, dict) and item:
            fields |= _flat(item, f"{before}{name}.")
        else:
            fields[f"{before}{name}"] = item
    return fields


def _names(value: Mapping[str, Any]) -> Iterator[str]:
    for name, item in value.items():
        yield name
        if isinstance(item, dict):
            yield from _names(item)
