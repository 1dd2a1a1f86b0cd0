"""The interface of what carries events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ce_engine.schema.events import Event


EventHandler = Callable[[Event], Any]
"""Synchronous or async; what it raises never reaches the turn."""


class EventBus(Protocol):
    """Carries events to their handlers."""

    async def emit(self, event: Event) -> None:
        """Hand the event to its handlers; a failing handler is logged once and harms nothing."""
        ...

    def on(self, event_type: str, handler: EventHandler) -> None: ...

    def off(self, event_type: str, handler: EventHandler) -> None: ...

    def on_all(self, handler: EventHandler) -> None: ...
