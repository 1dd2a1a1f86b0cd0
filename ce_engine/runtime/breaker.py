"""Says when a store is away, and spares everybody the wait for it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from time import monotonic

from ce_engine.errors import ContextEngineError
from ce_engine.ports.store import Store


logger = logging.getLogger("ce_engine.store")


class Breaker:
    """Open for a while after a failure: then nobody waits for the store (decision 10).

    Reads and writes have one each: on a full disk reads go on. Where reads fail, neither is waited
    for, so that a call waits once; a write that lands speaks for writes alone.
    """

    def __init__(
        self, store: Store, seconds: float, on_trip: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self._seconds = seconds
        self._on_trip = on_trip
        self._until = 0.0
        self._is_told = False

    def is_open(self) -> bool:
        return monotonic() < self._until

    def trip(self, why: str | Exception = "") -> None:
        """Nobody waits for a while; `why` is logged, once until the store is back."""
        if why and not self.is_open():
            self._on_trip()
            self._tell(why)
        self._until = monotonic() + self._seconds

    def _tell(self, why: str | Exception) -> None:
        if self._is_told:  # it was asked again, and is still away
            return
        self._is_told = True
        logger.warning(
            "the store %s is unavailable: %s; calls go on, recording follows when it is back. "
            "What is wrong with it tells: ce doctor",
            _name(self._store),
            why if isinstance(why, str) else cause(self._store, why),
        )

    def remaining(self) -> float:
        return max(0.0, self._until - monotonic())

    def reset(self) -> None:
        """It is back."""
        self._until, self._is_told = 0.0, False


def _is_ours(store: Store) -> bool:
    return getattr(store, "url_has_no_password", False) is True


_PATH = re.compile(r"/[^\s'\"()]+")


def _name(store: Store) -> str:
    """The store's URL, if it is one of ours: in another's may be a password."""
    return store.url if _is_ours(store) else f"({type(store).__name__})"


def cause(store: Store, error: Exception) -> str:
    """What happened; the text of an error that is not ours may quote what was to be stored."""
    if not isinstance(error, ContextEngineError):
        return type(error).__name__
    if not _is_ours(store):
        return error.code
    # A folder of a session is named after its user: of paths only the store's own is told.
    words = _PATH.sub(lambda path: path[0] if path[0] in store.url else "…", str(error))
    return f"{words} [{error.code}]"
