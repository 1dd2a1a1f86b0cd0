"""Whose the runs around a call are, of all frameworks: who is named outside is the user of what names none inside."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count


Naming = tuple[int, str | None]
"""When somebody was named, in the order of all frameworks, and who; `None` and `""` are nobody."""

order = count(1)
_telling: list[Callable[[], Naming | None]] = []


def tell_user(named_here: Callable[[], Naming | None]) -> None:
    """For a framework that knows of its runs.

    Args:
        named_here: gives what the innermost of them says that says anything, while it is at work.
    """
    _telling.append(named_here)


def user_around() -> str | None:
    """The user whom the innermost run around us names that says anything; `None` where that is nobody."""
    namings: list[Naming] = []
    for named_here in _telling:
        with suppress(Exception):  # odd tags, or a configuration that nobody has looked at
            namings += filter(None, [named_here()])
    return max(namings, key=lambda naming: naming[0], default=(0, None))[1] or None
