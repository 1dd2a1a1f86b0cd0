"""What an owner set for a project: named values with versions, beside all sessions (D-04, D-06)."""

from __future__ import annotations

from typing import Any, NamedTuple


class Setting(NamedTuple):
    """A stored value, plain JSON data, and its version: 1 for the first, one more with each write."""

    value: Any
    version: int


class Versions(NamedTuple):
    """What one cheap read tells about a session and its owner.

    Attributes:
        version: the session's; 0 if there is none.
        epoch: moved by every write that is no append.
        settings: moved by every write to a setting of the same account, user and project; 0 if there
            never was one.
    """

    version: int = 0
    epoch: int = 0
    settings: int = 0
