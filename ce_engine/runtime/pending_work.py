"""Work that was handed over without waiting, by session: the next phase lets it come first."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from concurrent.futures import Future
from time import monotonic
from typing import Any

from ce_engine.runtime.fork import renew_after_fork
from ce_engine.runtime.waiting import settled


MAX_KEYS = 1000


class PendingWork:
    """Futures by key, until they are done or somebody waited for them."""

    def __init__(self) -> None:
        self._reset()
        renew_after_fork(self._reset)

    def _reset(self) -> None:
        self._mutex = threading.Lock()
        self._futures: dict[Hashable, list[Future[Any]]] = {}

    def add(self, key: Hashable, future: Future[Any]) -> None:
        with self._mutex:
            waiting = [f for f in self._futures.get(key, ()) if not f.done()]
            self._futures[key] = [*waiting, future]
            if len(self._futures) > MAX_KEYS:
                self._forget_done()

    def _forget_done(self) -> None:
        """Drop what is done of sessions that had no phase since."""
        for key, futures in list(self._futures.items()):
            if all(future.done() for future in futures):
                del self._futures[key]

    async def settle(self, key: Hashable, timeout_s: float) -> None:
        """Wait for what was posted under the key so far."""
        with self._mutex:
            waiting = self._futures.pop(key, None)
        until = monotonic() + timeout_s
        for future in waiting or ():
            await settled(future, max(0.0, until - monotonic()))

    async def settle_all(self, timeout_s: float) -> bool:
        """Wait for everything posted so far; false if it is not done in time."""
        until = monotonic() + timeout_s
        return all([await settled(future, max(0.0, until - monotonic())) for future in self._all()])

    @property
    def pending(self) -> bool:
        return any(not future.done() for future in self._all())

    def _all(self) -> list[Future[Any]]:
        with self._mutex:
            return [future for futures in self._futures.values() for future in futures]
