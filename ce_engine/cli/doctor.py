"""`ce doctor`: temporary."""

from __future__ import annotations


def doctor() -> None:
    """Check."""
