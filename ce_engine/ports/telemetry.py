"""The interface of what is told of the engine's work: how long it took, and what came of it (A-31)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from ce_engine.schema.operations import Attribute, Operation


CountName = Literal["faults", "breaker_trips", "redactions"]


class Telemetry(Protocol):
    """Takes figures of the engine's work, from any thread, in the context of who asked for it.

    What a method raises never reaches the app: it is logged once.
    """

    def operation(self, operation: Operation) -> None:
        """An operation has ended, and all that is in it."""
        ...

    def count(self, name: CountName, attributes: Mapping[str, Attribute], amount: int = 1) -> None:
        """Something happened, so many times.

        `faults` are ours, which an app was spared; `breaker_trips`: nobody waits for the store now; `redactions`
        are fields of what no operation brought, such as a tool's run.
        """
        ...
