"""Digests of blocks: what tells pictures and files apart, at a cost that does not follow their size."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any


LARGE = 65_536
"""Characters or bytes of a value that is read as it is, and not as a part of the block's JSON."""

WHOLE = 2_097_152
"""Characters or bytes up to which a value is read whole; of a longer one its edges, and samples between."""

EDGE, SAMPLE, SAMPLES = 262_144, 1_024, 512

_ADDRESS = re.compile(r"\b0x[0-9A-Fa-f]{6,}")


class _NamelessError(Exception):
    """An object says nothing of itself but where it is, and that is another one's next."""


def digest_of(block: Mapping[Any, Any]) -> str:
    """A digest of a block; `""` where it cannot be written, or holds an object that tells neither its bytes nor its value.

    Values over 2 MB count with their length, their first and last 256 KB and 512 samples between: two
    that differ nowhere else are the same here. What is compressed differs from its first change on;
    pixels are none, and count whole.
    """
    try:
        packed = json.dumps(_short(block), sort_keys=True, ensure_ascii=False, default=_words)
    except (_NamelessError, RecursionError, ValueError):  # or nested too deep, or in itself
        return ""
    return hashlib.blake2b(packed.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _short(value: Any) -> Any:
    """The value with its large texts and bytes as digests."""
    if isinstance(value, io.BytesIO) and not value.closed:
        value = value.getvalue()
    if isinstance(value, str | bytes):
        return value if len(value) <= LARGE else _digest(value)
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value


def _words(value: object) -> object:
    """What stands for an object that JSON does not know: its bytes, as pictures have them, or its words."""
    if callable(tobytes := getattr(value, "tobytes", None)):
        with suppress(Exception):  # a file that breaks off
            beside = [str(getattr(value, name, "")) for name in ("mode", "size", "dtype", "shape")]
            return [*beside, hashlib.blake2b(tobytes(), digest_size=16).hexdigest()]
    if _ADDRESS.search(words := str(value)):
        raise _NamelessError
    return words


def _digest(value: str | bytes) -> str:
    digest = hashlib.blake2b(f"{type(value).__name__} {len(value)}".encode(), digest_size=16)
    for part in _parts(value):
        digest.update(part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part)
    return digest.hexdigest()


def _parts(value: str | bytes) -> Iterator[str | bytes]:
    if len(value) <= WHOLE:
        yield value
        return
    yield value[:EDGE]
    between = len(value) - 2 * EDGE
    for n in range(SAMPLES):
        at = EDGE + n * between // SAMPLES
        yield value[at : at + SAMPLE]
    yield value[-EDGE:]
