"""What an implementer gives the contract suite: how an app of the framework is made and asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from ce_integrations.identity.session import ce_session
from ce_integrations.install.adapter import Adapter, Way
from ce_integrations.testing.answers import Answer, JsonObject, Script
from ce_integrations.testing.wire import Wire


Tool = Callable[..., str]
"""A plain function with types and a one-line docstring. Where a framework's decorator wants more of
it, such as a word on each argument, make the framework's tool by hand (`inspect.signature`)."""

Test = TypeVar("Test", bound=Callable[..., Any])

MODEL = "gpt-4"
"""The model that every app asks: the vocabulary that counts its tokens comes with the test tools."""

AWAITED: tuple[Way, ...] = ("async", "astream", "apush")
PIECEWISE: tuple[Way, ...] = ("stream", "astream", "push", "apush")
"""The ways that are awaited, and those in which an app gets pieces."""

SYSTEM = "You look words up. 请用用户的语言回答。"
"""The system prompt of every app, as its first message."""


@dataclass(frozen=True, slots=True)
class Page:
    """A document that apps find, and what its metadata says of it."""

    text: str
    uri: str
    score: float


@dataclass(frozen=True, slots=True)
class Surface:
    """A way to ask a model that the framework's apps have, beside those of `FrameworkApps`.

    Attributes:
        make: is given the test and a wire; gives what to install on, and what asks with a text, once;
            an awaitable is awaited.
        script: what the wire answers.
        history: whether this is something that holds a conversation: what was said in the session
            before goes in where the app asks for it.
    """

    make: Callable[[Any, Wire], tuple[Any, Callable[[str], Any]]]
    script: Script = "A lane is a line. 一条线"
    history: bool = False


class FrameworkApps:
    """How apps of a framework are made and asked; everything that they ask goes to a `Wire`.

    Attributes:
        adapter: the adapter under test.
        packages: the framework's modules, as beginnings of their names.
        team_script: what the wire answers, request by request, to make one agent of `make_team` ask
            the other; three answers or more, no two texts the same.
        team_agents: the names of the agents who say each of them.
        group_script: the same for `make_group`, for one question; None is a text that is different
            each time.
        group_agents: the names of the agents who say each of them.
        surfaces: other ways to ask a model, by name.
        show: `aask` with a picture, the bytes of a PNG, after the text; None where messages of the
            framework's apps are text alone.
        are_alike: whether `make_target` makes the same app in every test of the class, whatever its
            fixtures: a conversation with one without us is then had once, and not anew for each test.
        has_status: whether the framework's error of a provider, or what it was raised from, tells the HTTP status.
    """

    adapter: ClassVar[Adapter[Any, Any]]
    packages: ClassVar[tuple[str, ...]]
    team_script: ClassVar[Sequence[str | Answer]] = ()
    team_agents: ClassVar[Sequence[str]] = ()
    group_script: ClassVar[Sequence[Answer | None]] = ()
    group_agents: ClassVar[Sequence[str]] = ()
    surfaces: ClassVar[Mapping[str, Surface]] = {}
    show: ClassVar[Callable[[Any, Any, str, bytes, str], Awaitable[str]] | None] = None
    are_alike: ClassVar[bool] = False
    has_status: ClassVar[bool] = False

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        """An app as a user writes it: the model `MODEL` at `wire.base_url`, `SYSTEM` first, and the tools.

        It keeps each conversation's messages, and never retries. What the framework lets a tool's
        error do is left as it is.

        The suite reads what goes out: each of the user's texts stands word for word in a message of
        role `user`, and nothing else does. An answer in words ends the run. A framework that does
        otherwise (frames what is asked, joins messages, writes tools' results as the user's, wants
        the answer as a call) is given a model or an agent of the test's own, which does it behind the
        adapter: `test_the_suite_can_read_what_an_app_sends` says what is left.
        """
        raise NotImplementedError

    def make_team(self, wire: Wire) -> Any:
        """An app in which answering takes two agents, one of which asks the other (`teams`)."""
        raise NotImplementedError

    def make_group(self, wire: Wire) -> Any:
        """An app in which agents answer one after the other, each hearing what was said (`groups`)."""
        raise NotImplementedError

    def make_helped(self, wire: Wire) -> Any:
        """An app for which the framework asks the model on its own account, too (`helpers`)."""
        raise NotImplementedError

    def aside(self, body: JsonObject) -> str | None:
        """What the model says to a request of that kind; None to one of the app's."""
        raise NotImplementedError

    def make_retrieving(self, wire: Wire, pages: Sequence[Page]) -> Any:
        """An app that looks each question up first, and finds all the pages (`retrieval`)."""
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

    def push(self, target: Any, text: str, session_id: str, heard: Callable[[str], None]) -> str:
        """Ask for a whole answer, whose pieces the framework hands to `heard` as they come (`push`).

        `heard` may raise, which goes where the framework lets a callback's error go.
        """
        raise NotImplementedError

    async def apush(
        self, target: Any, text: str, session_id: str, heard: Callable[[str], None]
    ) -> str:
        """The same, awaited (`apush`)."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close what the apps of a test have open, such as clients, on the loop that they ran on."""

    def annotated(self, native: Any) -> Any:
        """A copy of a message in which everything is filled that the framework has beside its text."""
        return native

    def received(self, target: Any) -> list[list[Any]]:
        """The framework's own messages that reached the model's code, call by call.

        Of every kind of target: a surface's, too, which may be a model.
        """
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
