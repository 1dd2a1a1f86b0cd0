"""What an implementer gives the contract suite: how an app of the framework is made and asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, TypeVar

from ce_integrations.base import Adapter, Way
from ce_integrations.session import ce_session
from ce_integrations.testing.answers import Answer
from ce_integrations.testing.wire import Wire


Tool = Callable[..., str]
"""A plain function with types and a docstring, as apps write tools."""

Test = TypeVar("Test", bound=Callable[..., Any])

MODEL = "gpt-4"
"""The model that every app asks: the vocabulary that counts its tokens comes with the test tools."""

SYSTEM = "You look words up. 请用用户的语言回答。"
"""The system prompt of every app, as its first message."""


class FrameworkApps:
    """How apps of a framework are made and asked; everything that they ask goes to a `Wire`.

    Attributes:
        adapter: the adapter under test.
        packages: the framework's modules, as beginnings of their names.
        team_script: what the wire answers, request by request, to make one agent of `make_team` ask
            the other; three answers or more, no two texts the same.
    """

    adapter: ClassVar[Adapter[Any, Any]]
    packages: ClassVar[tuple[str, ...]]
    team_script: ClassVar[Sequence[str | Answer]] = ()

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        """An app as a user writes it: the model `MODEL` at `wire.base_url`, `SYSTEM` first, and the tools.

        It keeps each conversation's messages, and never retries. What the framework lets a tool's
        error do is left as it is.
        """
        raise NotImplementedError

    def make_team(self, wire: Wire) -> Any:
        """An app in which answering takes two agents, one of which asks the other (`teams`)."""
        raise NotImplementedError

    def make_elsewhere(self, wire: Wire) -> Any:
        """An app that works in a task or thread which begins now, before it is asked (`elsewhere`)."""
        raise NotImplementedError

    def ask(self, target: Any, text: str, session_id: str) -> str:
        """Ask for a whole answer (`sync`).

        A framework with ids of its own is told the session by its id; for another one the call is
        made `in_session`. `""` is no id: nobody names the session.
        """
        raise NotImplementedError

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        """The same, awaited (`async`)."""
        raise NotImplementedError

    def stream(self, target: Any, text: str, session_id: str) -> Iterator[str]:
        """Ask, and give the pieces of the answer as they come (`stream`)."""
        raise NotImplementedError

    def astream(self, target: Any, text: str, session_id: str) -> AsyncIterator[str]:
        """The same, awaited (`astream`)."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close what the apps of a test have open, such as clients, on the loop that they ran on."""

    def received(self, target: Any) -> list[list[Any]]:
        """The framework's own messages that reached the model's code, call by call."""
        raise NotImplementedError


def in_session(session_id: str) -> ce_session | nullcontext[None]:
    """`ce_session`, where there is an id."""
    return ce_session(session_id) if session_id else nullcontext()


def needs(*abilities: str) -> Callable[[Test], Test]:
    """Mark a test that frameworks with these `Capabilities` must pass; others do not have it."""
    return _marked("needs", abilities)


def ways(*names: Way) -> Callable[[Test], Test]:
    """Mark a test with parameter `way` that is for some ways of asking only."""
    return _marked("ways", names)


def _marked(name: str, value: object) -> Callable[[Test], Test]:
    def mark(test: Test) -> Test:
        setattr(test, name, value)
        return test

    return mark
