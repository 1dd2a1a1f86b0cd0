"""A model call between its preparation and its record, and the mark that one is under way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from ce_engine import Prepared, TurnHandle, Usage, is_own_call
from ce_engine.runtime.context_variables import unset
from ce_engine.runtime.scoped_variable import Place, place_here
from ce_integrations.identity.session import CallIdentity
from ce_integrations.mapping.usage import summed


__all__ = [
    "Governed",
    "Turn",
    "call_around",
    "governing",
    "is_inside",
    "note_piece",
    "note_usage",
    "outside",
]


@dataclass(eq=False, slots=True)
class Turn:
    """One model call between its preparation and its record; an adapter only hands it around.

    A call of another framework inside a governed one, or of a model that was handed what another was
    asked, has `outer`: it is passed through, and what it used is added to that turn. `provider` and
    `agent` count where the answer does not name them.
    """

    handle: TurnHandle | None = None
    prepared: Prepared | None = None
    resolved: CallIdentity | None = None
    outer: Turn | None = None
    provider: str = ""
    agent: str = ""
    started: float = field(default_factory=time.perf_counter)
    first: float | None = None
    inner: list[Usage] = field(default_factory=list)
    """What calls inside used, and what was told beside the answer (`note_usage`)."""
    run_id: object = None
    """The framework's, where pieces are heard by it."""
    heard: list[str] = field(default_factory=list)
    """Pieces of an answer that the framework streams to others while it gives us the whole."""
    chunks: dict[int, str] = field(default_factory=dict)
    """Pieces of a streamed answer, by their index."""
    tell: Callable[[Turn, int, str], None] = lambda *_: None
    """Tells a piece of the answer on, by its index."""
    is_streamed: bool = False
    sent_messages: Sequence[Any] = ()
    """The framework's messages that went on, where they are known."""
    left: bool = False
    """Whether the app left it: its callback, which is given the pieces, raised."""
    _open: list[bool] = field(default_factory=lambda: [True])

    def hear(self, text: str, at: float | None = None) -> None:
        """Note a piece of the answer, which came now or at that time.

        It is told on, but of a stream that we give the app ourselves: those pieces are told as they go.
        """
        if text and self.first is None:
            self.first = time.perf_counter() if at is None else at
        self.heard.append(text)
        if not self.is_streamed:
            self.tell(self, len(self.heard) - 1, text)

    def used(self, usage: Usage | None) -> Usage | None:
        """What the call used: as its answer told, or those inside it together, if that is more."""
        if not self.inner:
            return usage
        inner = summed(self.inner)
        return inner if usage is None or inner.total_tokens > usage.total_tokens else usage

    def timed(self, usage: Usage) -> Usage:
        """A usage with how long the call took, and its first piece, where the usage does not say."""
        took = int((time.perf_counter() - self.started) * 1000)
        first = None if self.first is None else int((self.first - self.started) * 1000)
        return replace(
            usage,
            latency_ms=usage.latency_ms or took,
            first_token_latency_ms=usage.first_token_latency_ms or first,
        )

    @property
    def is_closed(self) -> bool:
        return not self._open

    def close(self) -> bool:
        """True for the first caller only, whatever the threads: a turn ends once."""
        try:
            return self._open.pop()
        except IndexError:
            return False


@dataclass(eq=False, slots=True)
class Governed:
    """The model call that runs around this code: whose, of which object, in which turn.

    Attributes:
        around: the one around it.
        place: the thread and task that it runs in; others inherit the mark, whoever began them.
        is_left: whether the code inside is done, for now.
    """

    adapter: str
    subject: object
    turn: Turn | None
    around: Governed | None = None
    place: Place = (0, 0)
    is_left: bool = False

    @property
    def is_here(self) -> bool:
        """Whether this code is in the call for certain: a task may be its callback's, or nobody's."""
        return self.place == place_here()

    @property
    def is_over(self) -> bool:
        return self.is_left and (self.turn is None or self.turn.is_closed)


_governed: ContextVar[Governed | None] = ContextVar("ce_governed", default=None)


class governing:  # noqa: N801 - used like a function, in `with`
    """Marks the code inside as one governed model call of `subject` (decision 5)."""

    __slots__ = ("_mark", "_token")

    def __init__(self, adapter: str, subject: object, turn: Turn | None) -> None:
        self._mark = Governed(adapter, subject, turn)
        self._token: Token[Governed | None] | None = None

    def __enter__(self) -> None:
        self._mark.around, self._mark.place = call_around(), place_here()
        self._token = _governed.set(self._mark)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._mark.is_left = True
        if self._token is not None:
            unset(_governed, self._token)


@contextmanager
def outside(*_: object, **__: object) -> Iterator[None]:
    """Runs an app's own code, such as its callbacks, which is no part of the call around it.

    As a context for `within` it takes whatever the method is called with.
    """
    token = _governed.set(None)
    try:
        yield
    finally:
        unset(_governed, token)


def call_around() -> Governed | None:
    """The governed model call that runs around us, if any; one that is over has left its mark in tasks."""
    call = _governed.get()
    while call is not None and call.is_over:
        call = call.around
    return call


def is_inside(subject: object) -> bool:
    """Whether this object's call is not to be governed: one of it runs around us, and asked already.

    In a task or thread of its own that may be another one, which the hooks tell by what it asks. So does
    nobody ask for a call of the engine's own, such as a summary.
    """
    if is_own_call():
        return True
    around = call_around()
    return around is not None and around.subject is subject and around.is_here


def note_usage(usage: Usage | None) -> None:
    """Note what the provider told beside the answer of the call around us; nothing, where there is none.

    For frameworks whose answers say nothing of it and which tell it by an event inside the call, in the
    same context. Several add up: a call may ask the provider more than once.
    """
    around = _governed.get()
    if usage is not None and around is not None and around.turn is not None:
        around.turn.inner.append(usage)


def note_piece(text: str) -> None:
    """Note a piece of the answer of the call around us, which a framework tells by an event inside it."""
    around = _governed.get()
    if around is not None and around.turn is not None:
        around.turn.hear(text)
