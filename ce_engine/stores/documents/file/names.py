"""Where a session's folder is: three names that are safe on every disk, whatever the ids are."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from ce_engine.stores.documents.base import Key


# Ranges, not \w: what that matches grows with Python's releases, and a name must never change.
_READABLE = re.compile(
    r"[0-9A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u052f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+"
)
_LONGEST = 24
_DIGEST_BYTES = 10
_SAFE = re.compile(rf"(?:.*-)?[0-9a-f]{{{2 * _DIGEST_BYTES}}}")


def safe(text: str) -> str:
    """A file name for an id: what is readable of it, and a hash that tells it from all others.

    Names of different ids differ in their hashes, so also where the disk ignores case.
    """
    readable = "-".join(_READABLE.findall(text[: 2 * _LONGEST]))[:_LONGEST].strip("-")
    data = text.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES, person=b"file-store").hexdigest()
    return f"{readable}-{digest}" if readable else digest


def is_safe(name: str) -> bool:
    """Whether a file name looks like one of `safe`."""
    return _SAFE.fullmatch(name) is not None


def folder_of(root: Path, key: Key) -> Path:
    """The folder of the session (account, user, session)."""
    return root.joinpath(*map(safe, key))
