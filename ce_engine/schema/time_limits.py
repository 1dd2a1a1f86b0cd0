"""How long work on one text may take, and how often it lets others go on.

Python runs one thread at a time: who works for long on a thread of its own slows all others down,
each time they wait for anything. So long work rests as often as it works, and looks at its limit then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar


T = TypeVar("T")

WORK_S = REST_S = 0.002


class _Pace:
    """Of one thread: when it rests next, and the reading of its clock of work at which it ends."""

    __slots__ = ("ends_at", "rest_s", "rests_at")

    def __init__(self, rest_s: float = 0.0, ends_at: float = float("inf")) -> None:
        self.rest_s, self.ends_at = rest_s, ends_at
        self.rests_at = time.perf_counter() + WORK_S

    def stop(self) -> None:
        if time.thread_time() > self.ends_at:
            raise TimeUpError("work on a text took longer than it may")
        if self.rest_s:
            time.sleep(self.rest_s)
        self.rests_at = time.perf_counter() + WORK_S


class TimeUpError(TimeoutError):
    """Work on a text took longer than it may."""


class Allowance:
    """Seconds that the work on one text may take; on all texts of one call, a few times as many.

    A pattern of an owner's that backtracks without end does so on every text of a list: the host's
    call waits for a few of them, and not for all.
    """

    TEXTS = 3

    def __init__(self, seconds: float) -> None:
        self._seconds, self._left = seconds, self.TEXTS * seconds

    def of_one(self, work: Callable[[], T]) -> T:
        """What the work on one text gives.

        Raises:
            TimeUpError: it took longer; raised by `breathe` in it.
        """
        began, around = time.thread_time(), _PACE.get()
        rest_s = around.rest_s if around is not None else 0.0
        token = _PACE.set(_Pace(rest_s, began + min(self._seconds, self._left)))
        try:
            return work()
        finally:
            _PACE.reset(token)
            self._left -= time.thread_time() - began


_PACE: ContextVar[_Pace | None] = ContextVar("ce_pace", default=None)


def breathe() -> None:
    """Let others go on, if this has worked for some time; to be called in every loop over a text.

    Raises:
        TimeUpError: it has worked for longer than `within` allows.
    """
    pace = _PACE.get()
    if pace is not None and time.perf_counter() > pace.rests_at:
        pace.stop()


def breathing(parts: Iterable[T]) -> Iterator[T]:
    """Give the parts of a text one by one, and `breathe` at each."""
    pace = _PACE.get()
    for part in parts:
        if pace is not None and time.perf_counter() > pace.rests_at:
            pace.stop()
        yield part


def paced(work: Callable[[], T]) -> T:
    """Do work that rests as often as it works, wherever it calls `breathe`."""
    token = _PACE.set(_Pace(REST_S))
    try:
        return work()
    finally:
        _PACE.reset(token)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit the work in the block to so many seconds, rests and the work of others not counted.

    Raises:
        TimeUpError: it took longer; raised by `breathe` in it.
    """
    around = _PACE.get()
    rest_s = around.rest_s if around is not None else 0.0
    token = _PACE.set(_Pace(rest_s, time.thread_time() + seconds))
    try:
        yield
    finally:
        _PACE.reset(token)


def seconds_left() -> float | None:
    """Seconds that the work has left, none below a thousandth; `None` where nobody limits it."""
    pace = _PACE.get()
    if pace is None or pace.ends_at == float("inf"):
        return None
    return max(0.001, pace.ends_at - time.thread_time())
