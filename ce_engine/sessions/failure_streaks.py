"""How often in a row something failed in a session, as far as this process saw (B-06)."""

from __future__ import annotations

from ce_engine.runtime.bounded_dict import BoundedDict


MAX_STREAKS = 64


class FailureStreaks:
    """Counts failures without a success in between: of a lane's model calls, and of each tool."""

    def __init__(self) -> None:
        self._counts: BoundedDict[tuple[str, str], int] = BoundedDict(MAX_STREAKS)

    def note(self, kind: str, name: str, *, is_failure: bool) -> int:
        """How many there are now, this one with them; 0 after a success."""
        count = self._counts.pop((kind, name), 0) + 1 if is_failure else 0
        if count:
            self._counts[kind, name] = count
        else:
            self._counts.pop((kind, name), None)
        return count
