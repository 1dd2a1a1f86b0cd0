"""Calls that a framework makes on its own account, to sum up, to route, to judge: no agent's, and no history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ce_engine.runtime.context_variables import unset


__all__ = ["aside", "is_aside"]

_aside: ContextVar[bool] = ContextVar("ce_aside", default=False)


@contextmanager
def aside(*_: object, **__: object) -> Iterator[None]:
    """Say that who asks a model inside does so for itself: to sum up, to route, to judge.

    Such calls are `purpose="helper"`: recorded, and nothing is brought in. As a context for `within`
    it takes whatever the method is called with: `within(aside)`.
    """
    token = _aside.set(True)
    try:
        yield
    finally:
        unset(_aside, token)


def is_aside() -> bool:
    """Whether who asks a model here does so for itself."""
    return _aside.get()
