"""The guard between our faults and the host app: log, remember, go on with the host's own input."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from ce_engine import ConfigError, ContextEngineError
from ce_engine.schema import environment


Fail = Literal["open", "closed"]

INTERNAL = "CONTEXT_INTERNAL"
"""The code of a fault that is none of our own errors."""

MAX_FAULTS = 64

_logger = logging.getLogger("ce_integrations")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of ours. It never holds the text of an exception.

    Attributes:
        code: stable, meant for machines.
        kind: the exception's type.
        where: the step that failed.
        line: `file:line` of the innermost frame.
    """

    code: str
    kind: str
    where: str
    line: str


class Guard:
    """Makes `with` blocks that a fault of ours does not leave.

    `fail="closed"` lets our own errors through, and `CE_GUARD=raise` everything, so that tests see
    what production swallows. Cancellation, interrupts and the end of a generator always pass.
    """

    def __init__(self, fail: Fail = "open") -> None:
        self.fail = fail
        self.faults: deque[Fault] = deque(maxlen=MAX_FAULTS)
        """What went wrong, oldest first: what the host was spared, and what it was to see."""
        self.tell: Callable[[Fault], object] = lambda _: None
        """Who else is to hear of each."""

    def __call__(self, where: str, *, reaches_host: bool = True) -> _Step:
        """A step of ours; one that does not reach the host runs while an exception of its own is on its way."""
        return _Step(self, where, reaches_host)

    def swallows(self, error: BaseException, where: str, *, reaches_host: bool = True) -> bool:
        """Remember a fault; false if it has to reach the host, which may itself swallow it."""
        if not isinstance(error, Exception):
            return False
        is_own = isinstance(error, ContextEngineError)
        code = error.code if isinstance(error, ContextEngineError) else INTERNAL
        fault = Fault(code, type(error).__name__, where, _line(error.__traceback__))
        self.faults.append(fault)
        is_raised = reaches_host and is_own and self.fail == "closed"
        if is_raised or os.environ.get(environment.GUARD) == "raise":
            return False
        # The text of an exception may quote the host's data: type, code and place must do, but for
        # an option that cannot be, which names the cure.
        _logger.warning(
            "context engineering was skipped in %s: %s %s at %s; the app's own input goes on%s",
            fault.where,
            fault.code,
            fault.kind,
            fault.line,
            f". {error}" if isinstance(error, ConfigError) else "",
        )
        with suppress(Exception):  # an engine that is closed hears nothing
            self.tell(fault)
        return True


class _Step:
    """One guarded step."""

    __slots__ = ("_guard", "_reaches_host", "_where")

    def __init__(self, guard: Guard, where: str, reaches_host: bool) -> None:
        self._guard = guard
        self._where = where
        self._reaches_host = reaches_host

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        return error is not None and self._guard.swallows(
            error, self._where, reaches_host=self._reaches_host
        )


def _line(traceback: TracebackType | None) -> str:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return "?"
    return f"{Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}"
