"""An app of a framework, run as it is and run with us, over equal model servers; and what came of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from traceback import format_exception
from types import TracebackType
from typing import Any, Self

import pytest

from ce_engine import ContextEngine, RuntimeConfig, Scope, StoreConfig, create_context_engine
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_engine.testing.faults import SwitchStore
from ce_integrations.install.adapter import CallInfo, Hooks, Installation, Way
from ce_integrations.testing.answers import Answer, JsonObject, Script
from ce_integrations.testing.framework_apps import FrameworkApps, Tool
from ce_integrations.testing.wire import Wire


SESSION = "session-1"

PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=10, breaker_s=0.05))
"""No slow machine changes a result, and a store that is back is used at once."""

Drive = Callable[[Any], Any]
"""Asks an app, and gives what is to be compared."""

_PLAIN_RUNS: dict[Hashable, AppRun] = {}
"""Conversations of apps without us, as they were; of suites whose apps are the same in every test."""


@dataclass(frozen=True, slots=True)
class Raised:
    """What an app raised, to be compared.

    Attributes:
        chain: the whole of it with all that led to it, for people: frameworks wrap what is raised.
    """

    kind: type[BaseException]
    text: str
    chain: str = field(default="", compare=False, repr=False)

    @classmethod
    def of(cls, error: BaseException) -> Self:
        return cls(type(error), str(error), "".join(format_exception(error)))

    def __repr__(self) -> str:
        """Shown where a comparison fails."""
        return f"Raised({self.kind.__name__}: {self.text})\n{self.chain}"


@dataclass
class AppRun:
    """What an app gave, and what it sent.

    Attributes:
        inputs: the framework's messages that the hooks were shown, preparation by preparation.
        received: those that reached the model's code, call by call.
    """

    result: Any = None
    raw: list[bytes] = field(default_factory=list)
    bodies: list[JsonObject] = field(default_factory=list)
    inputs: list[list[Any]] = field(default_factory=list)
    received: list[list[Any]] = field(default_factory=list)
    installation: Installation[Any, Any] | None = None
    target: Any = None


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks one question after the other; what the app raises is compared, too."""

    questions: tuple[str, ...]
    way: Way
    session_id: str
    trial: SideBySide = field(compare=False, repr=False)

    def __call__(self, target: Any) -> list[str | Raised]:
        return [self._tried(target, question) for question in self.questions]

    def _tried(self, target: Any, question: str) -> str | Raised:
        try:
            return self.trial.ask(target, question, self.way, self.session_id)
        except Exception as error:  # noqa: BLE001 - whatever the framework lets through
            return Raised.of(error)


class SideBySide:
    """One test's engine, event loop and apps."""

    def __init__(self, apps: FrameworkApps) -> None:
        self.apps = apps
        self.store = SwitchStore()
        self.engine: ContextEngine = create_context_engine(self.store, config=PATIENT)
        self.patch = pytest.MonkeyPatch()
        self.prepared: list[list[Any]] = []
        """The messages of each preparation so far."""
        self.told: list[CallInfo] = []
        """What the adapter said of each of them."""
        self._strict = True
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        self._runner = self._ends.enter_context(asyncio.Runner())
        self._ends.callback(self.engine.sync.close)
        self._ends.callback(self.patch.undo)
        self._ends.callback(lambda: self.run(self.apps.aclose()))
        self.patch.setenv("CE_GUARD", "raise")  # a fault of ours fails the test
        self._listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ends.close()

    def production(self) -> None:
        """Swallow faults of ours, as users have it; they are expected."""
        self._strict = False
        self.patch.delenv("CE_GUARD")

    def _listen(self) -> None:
        """See each list that an adapter hands to the hooks, as it is."""
        before, abefore = Hooks.before_model, Hooks.abefore_model

        def before_model(hooks: Any, natives: Any, info: Any) -> Any:
            with self._note_messages(natives, info):
                return before(hooks, natives, info)

        async def abefore_model(hooks: Any, natives: Any, info: Any) -> Any:
            with self._note_messages(natives, info):
                return await abefore(hooks, natives, info)

        self.patch.setattr(Hooks, "before_model", before_model)
        self.patch.setattr(Hooks, "abefore_model", abefore_model)

    @contextmanager
    def _note_messages(self, natives: list[Any], info: CallInfo) -> Iterator[None]:
        before = list(natives)
        self.prepared.append(before)
        self.told.append(info)
        yield
        assert list(map(id, natives)) == list(map(id, before)), "the app's own list was changed"

    # Asking

    def ask(self, target: Any, text: str, way: Way, session_id: str = SESSION) -> str:
        """One question to an app, in one of the ways."""
        if way == "sync":
            return self.apps.ask(target, text, session_id)
        if way == "stream":
            return "".join(self.apps.stream(target, text, session_id))
        if way == "push":
            pieces: list[str] = []
            return _whole(pieces, self.apps.push(target, text, session_id, pieces.append))
        return str(self.run(self.aask(target, text, way, session_id)))

    async def aask(self, target: Any, text: str, way: Way, session_id: str = SESSION) -> str:
        """The same inside a running loop."""
        if way == "async":
            return await self.apps.aask(target, text, session_id)
        if way == "apush":
            pieces: list[str] = []
            return _whole(pieces, await self.apps.apush(target, text, session_id, pieces.append))
        return "".join([piece async for piece in self.apps.astream(target, text, session_id)])

    def run(self, work: Any) -> Any:
        """Run a coroutine on the test's one event loop, as an app has it."""
        return self._runner.run(work, context=copy_context())

    def finished(self, work: Any) -> Any:
        """What was asked for, awaited on that loop if it is to be."""
        return self.run(work) if inspect.isawaitable(work) else work

    def asking(self, questions: Sequence[str], way: Way, session_id: str = SESSION) -> Asking:
        """Asks one after the other; what the app raises is compared, too."""
        return Asking(tuple(questions), way, session_id, self)

    # Playing

    def plain(self, drive: Drive, script: Script = None, tools: Sequence[Tool] = ()) -> AppRun:
        """Drive an app without us; where another test of this process did so before, as it was then."""
        key = self._key(drive, script, tools)
        run = _PLAIN_RUNS.get(key) if key is not None else None
        if run is None:
            with Wire(script) as wire:
                run = self.played(wire, self.apps.make_target(wire, tools), drive)
            if key is not None:
                _PLAIN_RUNS[key] = replace(run, target=None)  # it holds what the test closes
        return run

    def _key(self, drive: Drive, script: Script, tools: Sequence[Tool]) -> Hashable | None:
        """What a conversation depends on; None where it may be another one in the next test."""
        if not (self.apps.are_alike and isinstance(drive, Asking)) or callable(script):
            return None
        answers = script if isinstance(script, str | Answer | None) else tuple(script)
        asking_key = (
            drive.questions,
            drive.way,
            drive.session_id,
        )  # and not the trial, which has an engine
        return type(self.apps), *asking_key, answers, tuple(tools)

    def drive(
        self, drive: Drive, script: Script = None, tools: Sequence[Tool] = (), **options: Any
    ) -> AppRun:
        """Drive an app with us; `options` are those of `install_ce`."""
        with Wire(script) as wire:
            return self.installed(wire, self.apps.make_target(wire, tools), drive, **options)

    def installed(self, wire: Wire, target: Any, drive: Drive, **options: Any) -> AppRun:
        """Drive a given target while it is installed."""
        options.setdefault("engine", self.engine)
        start = len(self.prepared)
        with self.apps.adapter.install_ce(target, **options) as installation:
            played = self.played(wire, target, drive)
            assert installation.flush()
            # A framework may swallow what its callbacks raise.
            assert not (self._strict and installation.faults), installation.faults
        played.installation, played.inputs = installation, self.prepared[start:]
        return played

    def played(self, wire: Wire, target: Any, drive: Drive) -> AppRun:
        """Drive a target, and note what it sent."""
        result = drive(target)
        assert wire.refusals == [], "the provider refuses what was sent"
        return AppRun(
            result,
            [request.raw for request in wire.requests],
            wire.bodies,
            received=[list(natives) for natives in self.apps.received(target)],
            target=target,
        )

    # What is in the store

    def document(self, session_id: str = SESSION) -> SessionDocument:
        """A session as it is stored."""
        assert self.engine.sync.flush()
        document = self.engine.loop.run(self.store.get_session(Scope(session_id=session_id)))
        assert document is not None, f"nothing is recorded of {session_id!r}"
        return document

    def turns(self, session_id: str = SESSION) -> list[TurnRow]:
        """Its model calls, in order."""
        assert self.engine.sync.flush()
        return list(self.engine.loop.run(self.store.list_turns(Scope(session_id=session_id))))

    def sessions(self, *, ephemeral: bool = True) -> list[str]:
        """The ids of all sessions, with those that nobody named or without them."""
        assert self.engine.sync.flush()
        listed = self.store.list_sessions(user_id=None, ephemeral=ephemeral)
        return [session.session_id for session in self.engine.loop.run(listed)]


def _whole(pieces: list[str], answer: str) -> str:
    """What an app was pushed; what it is given in the end is the last of it."""
    text = "".join(pieces)
    assert text.endswith(answer), "the pieces that were pushed are not the answer"
    return text
