"""AES-256-GCM for content at rest, and where its keys come from (19 B.9)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ce_engine.errors import ConfigError, EncryptionKeyError, MissingDependencyError
from ce_engine.ports.encryption import ContentCipher
from ce_engine.schema import environment


if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM


VARIABLE = environment.ENCRYPTION_KEY
LEAST_CHARACTERS = 32
_NONCE_BYTES = 12
_HOW = 'python -c "import secrets; print(secrets.token_hex(32))" makes one.'


class AesGcmCipher:
    """AES-256-GCM of the package `cryptography`, with random nonces.

    A key of its own is derived for each place that something is bound to, so that no key ever seals
    more than one field of one session. The first of `keys` seals, all of them open.

    Args:
        keys: long random texts, at least 32 characters each.

    Raises:
        ConfigError: there is none, or one is too short.
        MissingDependencyError: `cryptography` is not installed.
    """

    def __init__(self, keys: Sequence[str | bytes]) -> None:
        secrets = [
            key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key for key in keys
        ]
        if not secrets:
            raise ConfigError(f"content is to be encrypted, and no key is given. {_HOW}")
        if short := next((len(s) for s in secrets if len(s) < LEAST_CHARACTERS), None):
            raise ConfigError(
                f"a key for encryption has {short} characters, expected at least {LEAST_CHARACTERS} "
                f"random ones. {_HOW}"
            )
        self._masters = {_id_of(secret): _master_of(secret) for secret in secrets}
        self._key_id = next(iter(self._masters))
        self._cipher = lru_cache(maxsize=512)(_maker())

    @property
    def key_id(self) -> str:
        return self._key_id

    def encrypt(self, data: bytes, bound_to: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._for(self._key_id, bound_to).encrypt(nonce, data, bound_to)

    def decrypt(self, key_id: str, data: bytes, bound_to: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - of an extra

        try:
            nonce, sealed = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
            return self._for(key_id, bound_to).decrypt(nonce, sealed, bound_to)
        except InvalidTag:
            raise ValueError("what is encrypted is not what was stored there") from None

    def _for(self, key_id: str, bound_to: bytes) -> AESGCM:
        master = self._masters.get(key_id)
        if master is None:
            key_ids = ", ".join(map(repr, self._masters))
            raise EncryptionKeyError(
                f"what is stored is encrypted with the key {key_id!r}, and the keys here are {key_ids}. Put "
                f"that key into {VARIABLE} too, behind a comma (or into StoreConfig(encryption=[...])); "
                "`ce rotate-key` then seals all with the first one. Nothing was changed."
            )
        return self._cipher(hashlib.blake2b(bound_to, key=master, digest_size=32).digest())


def _maker() -> Callable[[bytes], AESGCM]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - of an extra
    except ImportError as missing:
        raise MissingDependencyError(
            "encryption of content needs cryptography, which is not installed here: "
            "pip install 'ce-integrations[encryption]'"
        ) from missing
    return AESGCM


def _master_of(secret: bytes) -> bytes:
    return hashlib.blake2b(secret, digest_size=64, person=b"ce content key").digest()


def _id_of(secret: bytes) -> str:
    return hashlib.blake2b(secret, digest_size=4, person=b"ce content id").hexdigest()


def cipher_of(encryption: Any = None) -> ContentCipher | None:
    """The cipher that a configuration means; `None` if content is to be kept in the open.

    Args:
        encryption: a key, several of them (the first seals, all open), a `ContentCipher`, or a callable
            that gives one of these; without it the keys in `CE_ENCRYPTION_KEY`, with commas between them.

    Raises:
        ConfigError: it is none of these, or a key is too short.
        MissingDependencyError: `cryptography` is not installed.
    """
    if encryption is None:
        value = os.environ.get(VARIABLE, "")
        keys = [key.strip() for key in value.split(",") if key.strip()]
        return AesGcmCipher(keys) if keys else None
    if isinstance(encryption, ContentCipher):
        return encryption
    if callable(encryption):
        result = encryption()
        if result is None:
            raise ConfigError("the callable of StoreConfig(encryption=...) gave no key")
        return cipher_of(result)
    if isinstance(encryption, str | bytes):
        return AesGcmCipher([encryption])
    if isinstance(encryption, Sequence) and all(isinstance(k, str | bytes) for k in encryption):
        return AesGcmCipher(encryption)
    raise ConfigError(
        f"encryption is a {type(encryption).__name__}, expected a key, a list of keys, a ContentCipher, "
        "or a callable that gives one of these"
    )
