"""The event bus: handlers hear of every fact, and one that fails harms nothing (A-20)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading

from ce_engine.ports.events import EventHandler
from ce_engine.runtime.fork import renew_after_fork
from ce_engine.schema.events import Event


logger = logging.getLogger("ce_engine.events")


class InMemoryEventBus:
    """Calls handlers in the order of their registration; async ones are awaited."""

    def __init__(self) -> None:
        self.renew()
        self._handlers: dict[str | None, tuple[EventHandler, ...]] = {}
        self._reported: set[int] = set()
        renew_after_fork(self.renew)

    def renew(self) -> None:
        """A new lock, for a forked child."""
        self._mutex = threading.Lock()

    @property
    def is_idle(self) -> bool:
        """Whether nobody listens."""
        return not self._handlers

    def on(self, event_type: str, handler: EventHandler) -> None:
        self._add(str(event_type), handler)

    def on_all(self, handler: EventHandler) -> None:
        self._add(None, handler)

    def off(self, event_type: str, handler: EventHandler) -> None:
        """Remove a handler; one that is not there is no error."""
        with self._mutex:
            for key in (str(event_type), None):
                left = tuple(h for h in self._handlers.get(key, ()) if h != handler)
                if left:
                    self._handlers[key] = left
                else:
                    self._handlers.pop(key, None)

    def _add(self, key: str | None, handler: EventHandler) -> None:
        with self._mutex:
            self._handlers[key] = (*self._handlers.get(key, ()), handler)

    async def emit(self, event: Event) -> None:
        for handler in (*self._handlers.get(event.event_type, ()), *self._handlers.get(None, ())):
            try:
                result = handler(event)
                if inspect.isawaitable(result):
                    await result
            except asyncio.CancelledError as error:
                if _is_cancelled():
                    raise
                self._report(handler, error)  # something inside the handler was cancelled
            except Exception as error:  # noqa: BLE001 - a handler is somebody else's code
                self._report(handler, error)

    def _report(self, handler: EventHandler, error: BaseException) -> None:
        if id(handler) in self._reported:
            return
        self._reported.add(id(handler))
        logger.warning("an event handler failed (%s); it is reported once", type(error).__name__)


def _is_cancelled() -> bool:
    """Whether whoever emits is to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
