"""Where content becomes bytes: sealed as it is written, opened as it is read (19 B.9).

A store's public methods say whose content they handle (`BaseStore` sees to that), its threads are told
(`WorkerQueue`), and what turns values into what is kept asks here: columns of content (`tables.py`) and
items of a record (`record.py`). So a store that is built of these parts seals without a line of its own.

An envelope is a mark, a version, the key's id, and what the cipher made: of AES-GCM a nonce, the
ciphertext and its tag. It is bound to account, user, session and field: elsewhere it does not open.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import NamedTuple

from ce_engine.errors import ConfigError, EncryptionKeyError
from ce_engine.ports.encryption import ContentCipher
from ce_engine.stores.codec import SEALED
from ce_engine.stores.encryption import VARIABLE


Key = tuple[str, str, str]

_MARK = b"\xff\xffCE"
"""No packed data begin so."""
_VERSION = 1


class Seal(NamedTuple):
    """What seals now, and whose content it is."""

    cipher: ContentCipher | None = None
    key: Key = ("", "", "")


_active: ContextVar[Seal] = ContextVar("ce_seal", default=Seal())  # noqa: B039 - a tuple


def active() -> Seal:
    """What holds here."""
    return _active.get()


@contextmanager
def using(cipher: ContentCipher | None, key: Key) -> Iterator[None]:
    """Seal and open with this cipher in here, for this account, user and session."""
    token = _active.set(Seal(cipher, key))
    try:
        yield
    finally:
        with suppress(ValueError):  # a coroutine that is thrown away ends in nobody's context
            _active.reset(token)


@contextmanager
def of_session(key: Key) -> Iterator[None]:
    """What is sealed and opened in here is of this session, or with no session of this owner."""
    with using(_active.get().cipher, key):
        yield


def key_id() -> str:
    """The id of the key that seals here.

    Raises:
        ConfigError: none does.
    """
    cipher = _active.get().cipher
    if cipher is None:
        raise ConfigError(
            f"no key is configured to seal with. Set {VARIABLE}, the new key first and the old one "
            "behind a comma, or give StoreConfig(encryption=[...])."
        )
    return cipher.key_id


def seal(field: str, data: bytes) -> bytes:
    """The data in an envelope; as they are where nothing seals."""
    cipher, key = _active.get()
    if cipher is None:
        return data
    name = cipher.key_id.encode()
    head = _MARK + bytes((_VERSION, len(name))) + name
    return head + cipher.encrypt(data, _bound_to(head, key, field))


def unseal(field: str, data: bytes) -> bytes:
    """The data of an envelope; what is in none as it is.

    Raises:
        EncryptionKeyError: its key is not here.
        ValueError: it was changed, or is of another place.
    """
    if not data.startswith(_MARK):
        return data
    name = key_id_of(data)
    cipher, key = _active.get()
    if cipher is None:
        raise EncryptionKeyError(
            f"what is stored is encrypted with the key {name!r}, and no key is configured here. Set "
            f"{VARIABLE} to it, or give StoreConfig(encryption=...). Nothing was changed."
        )
    end = len(_MARK) + 2 + len(name.encode())
    return cipher.decrypt(name, data[end:], _bound_to(data[:end], key, field))


def key_id_of(data: bytes | str) -> str:
    """The id of the key that sealed it; empty if nothing did.

    Raises:
        ValueError: it is an envelope of a later release, or damaged.
    """
    if isinstance(data, str):
        if not data.startswith(SEALED):
            return ""
        data = b64decode(data[len(SEALED) :])
    if not data.startswith(_MARK):
        return ""
    start = len(_MARK) + 2
    if len(data) < start or data[start - 2] != _VERSION:
        raise ValueError("what is encrypted has a form that this release does not know")
    return data[start : start + data[start - 1]].decode()


def is_sealed(value: object) -> bool:
    """Whether it is a text in an envelope."""
    return isinstance(value, str) and value.startswith(SEALED)


def seal_text(field: str, text: str) -> str:
    """The text in an envelope that is text, too; an empty one has nothing to hide."""
    if not text or _active.get().cipher is None:
        return text
    return SEALED + b64encode(seal(field, text.encode())).decode()


def unseal_text(field: str, text: str) -> str:
    """The text that was sealed; see `unseal`."""
    if not text.startswith(SEALED):
        return text
    return unseal(field, b64decode(text[len(SEALED) :])).decode()


def _bound_to(head: bytes, key: Key, field: str) -> bytes:
    return head + json.dumps([*key, field]).encode()
