"""What telemetry is told of the engine's own work: one operation, with those inside it. Figures, never content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal


OperationName = Literal["prepare", "recall", "commit", "summary"]
Attribute = str | int | float | bool | Sequence[str]


@dataclass(frozen=True, slots=True)
class Operation:
    """Work of the engine that has ended.

    Attributes:
        name: `prepare` (a model call), `recall` (a search in it), `commit` (an answer is recorded, or that
            there is none), `summary` (one was made, with the engine's own model calls).
        started_ns: since the epoch; so is `ended_ns`.
        attributes: by names of OpenTelemetry's conventions (`gen_ai.request.model`), and `ce.*`.
        error: the type of what it raised; `""` where it ended well.
        parts: the operations inside it.
    """

    name: OperationName
    started_ns: int
    ended_ns: int
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    error: str = ""
    parts: Sequence[Operation] = ()

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ended_ns - self.started_ns) / 1e9
