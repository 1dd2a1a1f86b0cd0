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


def written(value: Any) -> str:
    """A value that was `read`, without space."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return _WRITTEN.sub(r"\1", text)


def compact(value: Any) -> str | None:
    """The same in fewer characters, lists of alike objects as rows; `None` where that cannot be told."""
    try:
        text = written(value if _has_header(value) else _tabled(value))
    except (ValueError, RecursionError):
        return None
    return None if SURROGATE.search(text) else text


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What of `new` is not as in `old`, objects inside by their own fields; and the paths that are gone."""
    other: dict[str, Any] = {}
    gone = [name for name in old if name not in new]
    for name, value in new.items():
        known = old.get(name)
        if name in old and known == value and type(known) is type(value):
            continue
        if isinstance(value, dict) and isinstance(known, dict):
            inside, lost = changed(known, value)
            gone += [f"{name}.{each}" for each in lost]
            if inside:
                other[name] = inside
        else:
            other[name] = value
    return other, gone


def _literal(text: str) -> str:
    return f"{_LITERAL}{text}"


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has two fields of one name")
    return found


def _has_header(value: Any) -> bool:
    """Whether somebody else's object looks like ours."""
    if isinstance(value, list):
        return any(map(_has_header, value))
    if not isinstance(value, dict):
        return False
    return (COLUMNS in value and ROWS in value) or any(map(_has_header, value.values()))


def _tabled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tabled(each) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    plain = [_tabled(each) for each in value]
    table = _table(value)
    return plain if table is None or len(written(table)) >= len(written(plain)) else table


def _table(value: list[Any]) -> dict[str, Any] | None:
    """The header and rows of alike objects, or of lists of them; `None` for anything else."""
    objects = list(_objects(value))
    names = list(objects[0]) if objects and all(objects) else []
    if len(objects) < 2 or not names or any(each.keys() != set(names) for each in objects):
        return None
    first = objects[0]
    shared = [n for n in names if all(_same(each[n], first[n]) for each in objects)]
    columns = [n for n in names if n not in shared]

    def row(each: Any) -> Any:
        if isinstance(each, list):
            return [row(inner) for inner in each]
        fields = _flat(each)
        return [_tabled(fields[name]) for name in columns]

    every = {EVERY: {name: _tabled(first[name]) for name in shared}} if shared else {}
    return {**every, COLUMNS: columns, ROWS: [row(each) for each in value]}


def _same(one: Any, other: Any) -> bool:
    return one == other and type(one) is type(other)


def _objects(value: list[Any]) -> Iterator[dict[str, Any]]:
    """The objects of a list, or of a list of lists, with objects inside flattened; an empty one for others."""
    for each in value:
        if isinstance(each, dict):
            yield _flat(each)
        elif isinstance(each, list) and each and all(isinstance(inner, dict) for inner in each):
            yield from map(_flat, each)
        else:
            yield {}


def _flat(value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The fields of an object and of those inside it, by their paths; names with dots are no paths."""
    if any("." in name for name in _names(value)):
        return dict(value)
    found: dict[str, Any] = {}
    for name, each in value.items():
        if isinstance(each, dict) and each:
            found |= _flat(each, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = each
    return found


def _names(value: Mapping[str, Any]) -> Iterator[str]:
    for name, each in value.items():
        yield name
        if isinstance(each, dict):
            yield from _names(each)
