"""Times the engine's work, and tells telemetry of it; what telemetry raises reaches nobody."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import time_ns

from ce_engine.ports.telemetry import CountName, Telemetry
from ce_engine.runtime.context_variables import unset
from ce_engine.schema.operations import Attribute, Operation, OperationName


logger = logging.getLogger("ce_engine.telemetry")


@dataclass(slots=True)
class OpenOperation:
    """One that runs; `is_told` is set to false where nothing came of it after all."""

    attributes: dict[str, Attribute] = field(default_factory=dict)
    parts: list[Operation] = field(default_factory=list)
    is_told: bool = True


_open: ContextVar[OpenOperation | None] = ContextVar("ce_operation", default=None)


@contextmanager
def part(name: OperationName) -> Iterator[dict[str, Attribute]]:
    """Time a part of the operation that runs here; nothing where none does. Gives its attributes, to be filled."""
    around = _open.get()
    attributes: dict[str, Attribute] = {}
    if around is None:
        yield attributes
        return
    started, error = time_ns(), ""
    try:
        yield attributes
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        around.parts.append(Operation(name, started, time_ns(), attributes, error))


def describe(attributes: Callable[[], Mapping[str, Attribute]]) -> None:
    """Say more of the operation that runs here; not even asked where nobody hears of it."""
    around = _open.get()
    if around is None:
        return
    try:
        around.attributes.update(attributes())
    except Exception as failure:  # noqa: BLE001 - its text may quote what was said
        logger.warning(
            "what a call came to could not be told to telemetry (%s)", type(failure).__name__
        )


class TelemetryGuard:
    """Hands operations on as they end."""

    def __init__(self, telemetry: Telemetry | None) -> None:
        self._telemetry = telemetry
        self._failed = False

    @contextmanager
    def operation(self, name: OperationName) -> Iterator[OpenOperation]:
        """Time what runs in the block."""
        opened, started, error = OpenOperation(), time_ns(), ""
        if self._telemetry is None:
            yield opened
            return
        token = _open.set(opened)
        try:
            yield opened
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            unset(_open, token)
            if opened.is_told:
                outcome = opened.attributes, error, opened.parts
                self._tell(Operation(name, started, time_ns(), *outcome))

    def count(self, name: CountName, attributes: Mapping[str, Attribute], amount: int = 1) -> None:
        """Hand on that something happened."""
        if self._telemetry is not None:
            self._guarded(lambda telemetry: telemetry.count(name, attributes, amount))

    def redacted(self, fields: int, framework: str) -> None:
        """Fields were redacted: figures of the operation that runs here; else on their own."""
        if not fields:
            return
        if (around := _open.get()) is not None:
            around.attributes.setdefault("ce.redactions", fields)
        else:
            self.count("redactions", {"ce.framework": framework} if framework else {}, fields)

    def tripped(self, access: str) -> None:
        """Nobody waits for the store for a while, in reading or in writing."""
        self.count("breaker_trips", {"ce.store.access": access})

    def _tell(self, operation: Operation) -> None:
        self._guarded(lambda telemetry: telemetry.operation(operation))

    def _guarded(self, tell: Callable[[Telemetry], None]) -> None:
        try:
            if self._telemetry is not None:
                tell(self._telemetry)
        except Exception as error:  # noqa: BLE001 - somebody else's may raise anything
            if not self._failed:
                logger.warning("telemetry failed (%s); it is reported once", type(error).__name__)
            self._failed = True
