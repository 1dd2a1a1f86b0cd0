"""The interface of what seals content at rest; its docstrings are the specification."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class ContentCipher(Protocol):
    """Authenticated encryption of what a store keeps (19 B.9); called from the store's own threads.

    It has one key that seals, and may have older ones that open what they sealed. It is asked once for
    every value that is written or read: a key that is far away must be fetched once, not each time.
    """

    @property
    def key_id(self) -> str:
        """Names the key that seals now, without telling anything of it; 1 to 255 bytes, kept in the open."""
        ...

    def encrypt(self, data: bytes, bound_to: bytes) -> bytes:
        """Seal `data` under `key_id`; nothing else opens it, and only with the same `bound_to`.

        Equal data must not give equal bytes.
        """
        ...

    def decrypt(self, key_id: str, data: bytes, bound_to: bytes) -> bytes:
        """Open what `encrypt` made when its key was `key_id`.

        Raises:
            EncryptionKeyError: there is no such key here.
            ValueError: it is not what was sealed, or was sealed for another place.
        """
        ...
