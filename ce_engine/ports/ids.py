"""The interfaces of time, ids and digests."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Gives the time."""

    def now_iso(self) -> str:
        """UTC now, ISO 8601 with `Z`."""
        ...


class IdGenerator(Protocol):
    """Gives ids."""

    def generate(self) -> str:
        """An id that was never given before."""
        ...


class Hasher(Protocol):
    """Hashes content."""

    def digest(self, content: str) -> str:
        """A hash of the content in hex, the same for the same content on every machine."""
        ...
