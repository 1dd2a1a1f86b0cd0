"""Plain data as JSON text, and data that is nested too deep for it, refused by name."""

from __future__ import annotations

import json
from typing import Any

from ce_engine.errors import SchemaValidationError


MAX_DEPTH = 200
"""Levels of data that is stored; what copies and writes it recurses."""


_PLAIN, _ASCII = (json.JSONEncoder(ensure_ascii=only, default=str) for only in (False, True))
_CANONICAL = json.JSONEncoder(
    ensure_ascii=False, default=str, sort_keys=True, separators=(",", ":")
)


def json_text(value: Any, encoder: json.JSONEncoder = _PLAIN) -> str:
    """Render plain data as JSON; what is no plain data as its `str`.

    Raises:
        SchemaValidationError: it is nested too deep for Python's stack, or holds itself.
    """
    try:
        return encoder.encode(value)
    except (RecursionError, ValueError) as error:
        raise _too_deep("than JSON can be written") from error


def canonical_json(value: Any) -> str:
    """Render plain data as JSON that depends on nothing but the data: sorted, compact, not ASCII-only.

    Raises:
        SchemaValidationError: as of `json_text`.
    """
    return json_text(value, _CANONICAL)


def plain_data(value: Any) -> Any:
    """A copy as plain JSON data, to be stored: the host's own may change before it is written.

    Raises:
        SchemaValidationError: it is nested deeper than `MAX_DEPTH` levels, or holds itself.
    """
    text = json_text(value, _ASCII)
    plain = json.loads(text)
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(plain) > MAX_DEPTH:
        raise _too_deep(f"than {MAX_DEPTH} levels")
    return plain


def is_deep(value: Any) -> bool:
    """Whether data is nested deeper than what is stored may be; so is what holds itself."""
    ahead = [(value, 1)]
    while ahead:
        item, depth = ahead.pop()
        if not isinstance(item, dict | list | tuple):
            continue
        if depth > MAX_DEPTH:
            return True
        inside = item.values() if isinstance(item, dict) else item
        ahead += [(child, depth + 1) for child in inside]
    return False


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [
            child for item in level for child in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


def _too_deep(limit: str) -> SchemaValidationError:
    return SchemaValidationError(
        f"JSON data (arguments of a tool, a tool's schema, metadata) is nested deeper {limit}, or holds "
        "itself; expected what a provider takes: flatten it, or hand it over as text"
    )
