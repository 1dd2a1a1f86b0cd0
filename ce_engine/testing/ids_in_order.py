"""Ids that are the same in every run."""

from __future__ import annotations

from itertools import count


class IdsInOrder:
    """An `IdGenerator` that counts, in the form of a UUID; threads may share it.

    Random ids decide where scores are equal, and cost now more tokens, now fewer where they are shown.

    Args:
        prefix: what each id begins with, such as one that is all of it that is shown.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._numbers = count(1)

    def generate(self) -> str:
        """The next id: the first ends the first eight digits with 1."""
        return f"{self._prefix}{next(self._numbers):08x}-0000-4000-8000-000000000000"
