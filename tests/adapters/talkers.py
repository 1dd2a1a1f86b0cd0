"""A make-believe framework with a model that is asked in every way that Python has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from ce_engine import (
    ContextEngine,
    HostMessage,
    Insert,
    Message,
    Origin,
    Role,
    Scope,
    Step,
    TurnStatus,
)
from ce_integrations import Adapter
from ce_integrations.install.adapter import Detach, Hooks


@dataclass(eq=False)
class Line:
    """A message of this framework."""

    role: str
    content: str


PIECES = ("A lane ", "is a ", "line.")
ANSWER = "".join(PIECES)


@dataclass(eq=False)
class Talker:
    """Its model. Streams are begun at the call, or at the first piece, as the name says.

    Attributes:
        sent: what it was asked, call by call.
        left: how often a stream was left before its end.
        error: what the next call raises.
    """

    sent: list[list[Line] | str] = field(default_factory=list)
    left: int = 0
    error: Exception | None = None

    def whole(self, messages: list[Line]) -> Line:
        return self._asked(messages)

    async def awaited(self, messages: list[Line]) -> Line:
        return self._asked(messages)

    def stream(self, messages: list[Line]) -> Iterator[str]:
        self._asked(messages)
        yield from self._pieces()

    async def astream(self, messages: list[Line]) -> AsyncIterator[str]:
        self._asked(messages)
        for piece in self._pieces():
            yield piece

    def begun(self, messages: list[Line]) -> Iterator[str]:
        """A plain function that asks at once, and gives a generator."""
        self._asked(messages)
        return self._pieces()

    async def abegun(self, messages: list[Line]) -> AsyncIterator[str]:
        """A coroutine that asks at once, and gives an async generator."""
        self._asked(messages)
        return self._apieces()

    def later(self, messages: list[Line]) -> AsyncIterator[str]:
        """A plain function that gives an async generator, which asks."""
        return self.astream(messages)

    def complete(self, prompt: str) -> str:
        self._asked(prompt)
        return ANSWER

    def _asked(self, given: Any) -> Line:
        self.sent.append(given)
        if self.error is not None:
            raise self.error
        return Line("assistant", ANSWER)

    def _pieces(self) -> Iterator[str]:
        try:
            yield from PIECES
        except GeneratorExit:
            self.left += 1
            raise

    async def _apieces(self) -> AsyncIterator[str]:
        for piece in self._pieces():
            yield piece


class TalkerAdapter(Adapter[Talker, Line]):
    """Maps lines; `attach` is set by each test."""

    name = "talkers"
    requires = ("pydantic>=2",)

    def accepts(self, target: object) -> bool:
        return isinstance(target, Talker)

    def attach(self, target: Talker, hooks: Hooks[Line]) -> Detach:
        return lambda: None

    def to_schema(self, native: Line) -> HostMessage:
        origin = Origin.ANSWER if native.role == "assistant" else Origin.TASK
        return HostMessage(Message(role=Role(native.role), content=native.content), origin)

    def to_native(self, step: Step, native: Line | None) -> Line:
        assert isinstance(step, Insert), f"nothing else is to be made here: {step} {native}"
        return Line("system", step.text)


def rows(engine: ContextEngine) -> list[Any]:
    """The turns of session `s`."""
    assert engine.sync.flush()
    return list(engine.loop.run(engine.store.list_turns(Scope(session_id="s"))))


def ended(engine: ContextEngine) -> list[TurnStatus]:
    return [row.status for row in rows(engine)]


def said(engine: ContextEngine) -> list[str]:
    """The messages of session `s`."""
    assert engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    assert found is not None
    return [message.content for message in found.session.messages]
