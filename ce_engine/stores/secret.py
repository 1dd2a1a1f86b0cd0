"""The install's secret for fingerprints: kept outside the store, made at first use."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import tempfile
from functools import cache
from pathlib import Path

from ce_engine.errors import StoreUnavailableError
from ce_engine.schema import environment
from ce_engine.stores import private_files


logger = logging.getLogger("ce_engine.store")

VARIABLE = environment.SECRET
_BYTES = 32
_MOST = 1024
"""Characters that are read of a key file; one that is whole has fewer."""


def from_environment() -> bytes | None:
    """The secret in `CE_SECRET`, which stands above every key file."""
    text = os.environ.get(VARIABLE, "")
    return text.encode("utf-8", "surrogateescape") or None


def mark() -> str:
    """What tells the secret in `CE_SECRET` from that of another host, and nothing else of it; "" without one."""
    text = from_environment() or b""
    digest = hashlib.blake2b(b"", key=text[:64], digest_size=8, person=b"redis-secret")
    return digest.hexdigest() if text else ""


def of_local(database: Path) -> bytes:
    """The secret of a local store: `CE_SECRET`, else what is in the key file beside it.

    Raises:
        StoreUnavailableError: the key file can neither be read nor made, or is damaged.
    """
    value = from_environment()
    if value is None:
        return beside(database)
    if two := two_secrets(database):
        _warn_once(two)
    return value


def two_secrets(database: Path) -> str:
    """That a local store has a key file, and `CE_SECRET` stands above it; `""` where it has not."""
    path = _file(database)
    if from_environment() is None or not os.path.lexists(path):
        return ""
    return (
        f"{VARIABLE} is set, and the store has a key file {str(path)!r}: what was recorded with the one reads as "
        "tampered with under the other"
    )


@cache
def _warn_once(text: str) -> None:
    logger.warning("%s. %s", text, CURE)


CURE = f"Take {VARIABLE} away, or begin a new store with it; where all was recorded with it, take the key file away."
"""Of a store with two secrets."""


@cache
def of_process() -> bytes:
    """A secret that ends with the process, for what is not kept longer."""
    return secrets.token_bytes(_BYTES)


def is_there(database: Path) -> bool:
    """Whether there is a secret for a local store; nothing is made."""
    return from_environment() is not None or is_beside(database)


def is_beside(database: Path) -> bool:
    """Whether there is a key file beside a local store, or beside a backup."""
    return os.path.lexists(_file(database))


def _file(database: Path) -> Path:
    return database.with_name(f"{database.name}.key")


def beside(database: Path) -> bytes:
    """The secret in the key file beside a local store; several processes may ask at once.

    Raises:
        StoreUnavailableError: the key file can neither be read nor made, or is damaged.
    """
    path = _file(database)
    try:
        if not os.path.lexists(path):
            _make(path)
        with open(path, encoding="ascii", errors="replace", opener=private_files.opener) as file:
            text = file.read(_MOST).strip()
    except OSError as error:
        if private_files.is_link(path):
            raise StoreUnavailableError(
                f"the key file {str(path)!r} is a symbolic link, which is not followed. Put the file "
                "itself there."
            ) from None
        if private_files.is_irregular(path):
            raise StoreUnavailableError(
                f"the key file {str(path)!r} is a pipe, a folder or a device. Take it away, and put the file "
                f"back from a backup, or set {VARIABLE}."
            ) from None
        raise StoreUnavailableError(
            f"the key file {str(path)!r} cannot be read or made ({error.strerror}). "
            f"Make its folder writable, or set {VARIABLE} to a long random text."
        ) from error
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != _BYTES:
        raise StoreUnavailableError(
            f"the key file {str(path)!r} is damaged: expected {2 * _BYTES} hexadecimal digits. "
            f"Restore it, or set {VARIABLE}; with it deleted, a new one is made and what was "
            "recorded before is recognised by its text only."
        )
    return secret


def put_beside(database: Path, secret: bytes) -> None:
    """Give a local store, which has none, the secret of another one.

    Raises:
        StoreUnavailableError: its key file cannot be made.
    """
    path = _file(database)
    try:
        _make(path, secret.hex())
    except OSError as error:
        raise StoreUnavailableError(
            f"the key file {str(path)!r} cannot be made ({error.strerror}). Make its folder writable."
        ) from error


def _make(path: Path, key: str = "") -> None:
    """Write a new key aside (mode 0600) and link it into place: the first of several stands."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write((key or secrets.token_hex(_BYTES)) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was first: its key stands
    finally:
        Path(draft).unlink()
