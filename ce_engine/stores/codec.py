"""Values to text and back, compact and without loss: JSON for data, escapes for what databases refuse."""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic_core import from_json as quick_json


M = TypeVar("M", bound=BaseModel)

_MARKED = "\x02"
_ESCAPED = f"{_MARKED}json:"
"""Stands before a text that is kept as JSON because it holds NUL or half a surrogate pair."""

SEALED = f"{_MARKED}seal:"
"""Stands before a text that is sealed; see `sealing.py`."""

NO_RECORD = (ValueError, TypeError, KeyError, AttributeError, OverflowError)
"""Raised where what a store has is read as a record, and is none: somebody wrote something else there."""

_ASCII = json.JSONEncoder(separators=(",", ":"), default=str)
_PLAIN = json.JSONEncoder(separators=(",", ":"), default=str, ensure_ascii=False)


def to_json(value: Any) -> str:
    """Plain data as compact JSON; what is no plain data becomes its `str`.

    Half a surrogate pair (a text that was cut in the middle of an emoji) cannot be stored as UTF-8:
    such data is written in ASCII escapes instead.
    """
    text = _PLAIN.encode(value)
    return text if _is_storable(text) else _ASCII.encode(value)


def from_json(text: str | bytes) -> Any:
    """The data that `to_json` wrote.

    Raises:
        ValueError: it is no JSON, or somebody nested it deeper than it can be read.
    """
    try:
        return quick_json(text, cache_strings="keys")
    except (ValueError, TypeError):
        pass  # half a surrogate pair, deep nesting, which the other reads; or no JSON, as it says
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def compact(model: BaseModel, leave_out: AbstractSet[str] = frozenset()) -> dict[str, Any]:
    """The fields of a model that differ from their defaults."""
    return model.model_dump(exclude_defaults=True, exclude=set(leave_out) or None)


def fresh(model: M) -> M:
    """A copy that shares nothing with `model`, exactly as it would come back from a database."""
    return type(model).model_validate(fresh_data(compact(model)))


def fresh_data(value: Any) -> Any:
    """Plain data as it would come back from a database."""
    return from_json(to_json(value))


def escape(text: str) -> str:
    """The text in a form that every database takes; equal texts have equal forms."""
    if text.isascii() and "\x00" not in text and text[:1] != _MARKED:
        return text  # as nearly all are
    if _is_storable(text) and not text.startswith((_ESCAPED, SEALED)):
        return text
    return _ESCAPED + json.dumps(text)


def unescape(text: str) -> str:
    """The text that was escaped."""
    if not text.startswith(_ESCAPED):
        return text
    original: str = json.loads(text[len(_ESCAPED) :])
    return original


def _is_storable(text: str) -> bool:
    if "\x00" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
