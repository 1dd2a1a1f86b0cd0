"""A dict that forgets: what is remembered for speed has a bound."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar


K = TypeVar("K")
T = TypeVar("T")


class BoundedDict(OrderedDict[K, T]):
    """A dict of bounded size: the oldest goes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: T) -> None:
        super().__setitem__(key, value)
        while len(self) > self._most:
            self.popitem(last=False)
