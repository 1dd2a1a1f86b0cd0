"""What the apps of `overhead.py` have in common: their talk, their sessions, their clocks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


ANSWER = "the flight to Lisbon leaves at nine and the hotel is by the river with a view of the old bridge"
WORDS = ANSWER.split()
ANSWERS_AFTER_S = 0.005
"""A model that answers at once would let the bare app run from warm caches, as no app does."""

CHAT = 20
"""Calls of a long chat before another one begins."""


class App:
    """Asks one question after the other; its methods, by mode, give what each call took.

    A *short* call is the only one of its session; a *long* chat begins with so many `messages`.
    """

    def __init__(self, target: Any, messages: int) -> None:
        self.target = target
        self.messages = messages
        self.calls_a_session = CHAT if messages else 1
        self.calls = 0

    @property
    def begins(self) -> bool:
        """Whether the next question is the first of its session."""
        return self.calls % self.calls_a_session == 0

    @property
    def sessions(self) -> int:
        return -(-self.calls // self.calls_a_session)

    def asked(self) -> tuple[str, str]:
        """The next question and its session."""
        session = f"{self.messages}-{self.calls // self.calls_a_session}"
        self.calls += 1
        return f"{self.calls}: when does {WORDS[self.calls % len(WORDS)]} begin?", session


def texts(messages: int) -> list[str]:
    """What was said before a long chat, in turn by the user and the assistant."""
    return [f"{n}: {ANSWER}" for n in range(messages)]


@contextmanager
def bare(_: App) -> Iterator[None]:
    yield


def clocks() -> tuple[float, float, float]:
    return time.thread_time(), time.process_time(), time.perf_counter()


def since(start: tuple[float, float, float]) -> list[float]:
    """Milliseconds of the calling thread's CPU, of the process's CPU, and of the clock."""
    return [(now - then) * 1000 for then, now in zip(start, clocks(), strict=True)]
