"""Tells events on a thread of their own: a slow handler holds up nobody's records (A-20)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from ce_engine.ports.events import EventBus
from ce_engine.runtime.locks import KeyedLocks
from ce_engine.runtime.loop import LoopThread
from ce_engine.runtime.pending_work import PendingWork
from ce_engine.runtime.waiting import settled
from ce_engine.schema.events import Event, EventType
from ce_engine.schema.scope import Scope


logger = logging.getLogger("ce_engine.events")

CLOSE_S = 1.0
"""How long the end waits for handlers."""


class Announcer:
    """Events of one session are told in the order in which they came; sessions do not wait for each other."""

    def __init__(self, bus: EventBus, deadline_s: float) -> None:
        self._bus = bus
        self._deadline_s = deadline_s
        self._loop = LoopThread("ce-events")
        self._locks = KeyedLocks()
        self._posted = PendingWork()
        self._failed = False

    @property
    def is_heard(self) -> bool:
        """Whether anybody may listen; a bus that cannot say so is told everything."""
        return not getattr(self._bus, "is_idle", False)

    def tell(
        self, scope: Scope, events: Sequence[Event], landing: Future[bool] | None = None
    ) -> None:
        """Tell events, after the first word of their group if they are stored with it: `landing`.

        `Persisted` is told only if the group has landed.
        """
        self._posted.add(scope.key, self._loop.submit(self._tell(scope, events, landing)))

    async def _tell(
        self, scope: Scope, events: Sequence[Event], landing: Future[bool] | None
    ) -> None:
        async with self._locks.hold(scope.key):
            landed = landing is None
            if landing is not None and await settled(landing, self._deadline_s):
                landed = landing.result()
            for event in events:
                if landed or event.event_type != EventType.PERSISTED:
                    await self._emit(event)

    async def _emit(self, event: Event) -> None:
        try:
            await self._bus.emit(event)
        except Exception as error:  # noqa: BLE001 - a bus of somebody else's may raise anything
            if not self._failed:
                logger.warning(
                    "the event bus failed (%s); it is reported once", type(error).__name__
                )
            self._failed = True

    async def close(self) -> Any:
        """Let handlers hear what was told, within bounds, and end the thread."""
        if not self._loop.is_current():
            await self._posted.settle_all(CLOSE_S)
            self._loop.close()
