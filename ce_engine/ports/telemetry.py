"""The interface of what is told of the engine's work: how long it took, and what came of it (A-31)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from ce_engine.schema.operations import Attribute, Operation


CountName = Literal["faults", "breaker_trips"]


class Telemetry(Protocol):
    """Takes figures of the engine's work, from any thread, in the context of who asked for it.

    What a method raises never reaches the app: it is logged once.
    """

    def operation(self, operation: Operation) -> None:
        """An operation has ended, and all that is in it."""
        ...

    def count(self, name: CountName, attributes: Mapping[str, Attribute]) -> None:
        """Something happened once: a fault that an app was spared, or a store that nobody waits for now."""
        ...
