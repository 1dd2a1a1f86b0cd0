"""Context variables that are set for a block, wherever the block ends."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TypeVar


T = TypeVar("T")


def unset(variable: ContextVar[T], token: Token[T]) -> None:
    """Reset a variable at the end of a block.

    A coroutine or generator that is collected, or closed by somebody else, ends in another context:
    there nothing was set, and an error would take the place of the app's own.
    """
    with suppress(ValueError):
        variable.reset(token)
