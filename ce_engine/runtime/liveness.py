"""When a store last answered: one that answers others is busy, and not away."""

from __future__ import annotations

from time import monotonic


class Liveness:
    """The last answers of a store, to the last one who had any and to the last of all others."""

    def __init__(self) -> None:
        self._last: tuple[object, float] = (None, 0.0)
        self._other = 0.0

    def answered(self, asker: object) -> None:
        """Note that the store has answered somebody."""
        before, at = self._last
        if before != asker:
            self._other = at
        self._last = asker, monotonic()

    def quiet_s(self, asker: object) -> float:
        """Seconds since it answered anybody but this one."""
        before, at = self._last
        return monotonic() - (self._other if before == asker else at)
