"""Methods as instrumentation libraries leave them: descriptors that look like functions and know the instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


Note = Callable[[str, Any], object]


class Spied:
    """What `wrapt.FunctionWrapper` does: called as an attribute it tells its instance, else none."""

    def __init__(self, wrapped: Any, note: Note, instance: Any = None) -> None:
        self._wrapped = wrapped
        self._note = note
        self._instance = instance

    def __get__(self, instance: Any, owner: type) -> Spied:
        return Spied(self._wrapped.__get__(instance, owner), self._note, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._note(self._wrapped.__name__, self._instance)
        return self._wrapped(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    __class__ = property(lambda self: type(self._wrapped))
