"""Only the very call that is governed is passed by: what a callback begins during it is a call of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

import pytest

from ce_engine import ContextEngine, MemoryStore, Scope, create_context_engine
from ce_integrations import CallInfo, ce_session
from ce_integrations.calls.model_methods import ModelMethodCall, governed
from ce_integrations.install.adapter import Detach, Hooks
from tests.adapters.talkers import Line, Talker, TalkerAdapter


@dataclass(eq=False)
class Echo(Talker):
    """Says what it was asked; an app's `callback` hears of it before it answers, as frameworks have it.

    Attributes:
        user: whose the next call is, by the framework's own id.
    """

    callback: Callable[[], Any] | None = None
    user: str | None = None
    waited: list[asyncio.Task[Line]] = field(default_factory=list)

    def _heard(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()

    def whole(self, messages: list[Line]) -> Line:
        self._heard()
        return Line("assistant", f"heard: {messages[-1].content}")

    async def awaited(self, messages: list[Line]) -> Line:
        """Waits for somebody else before it answers."""
        self._heard()
        begun, self.waited = self.waited, []
        await asyncio.gather(*begun)
        return Line("assistant", f"heard: {messages[-1].content}")

    async def threaded(self, messages: list[Line]) -> Line:
        """Asks its own blocking method, on a thread, as frameworks' bases do."""
        return await asyncio.to_thread(self.whole, messages)

    async def tasked(self, messages: list[Line]) -> Line:
        (answer,) = await asyncio.gather(self.awaited(messages))
        return answer


def _described(call: ModelMethodCall) -> tuple[list[Line], CallInfo]:
    return call.messages, CallInfo(session_id=call.subject.user)


class Echoes(TalkerAdapter):
    def attach(self, target: Talker, hooks: Hooks[Line]) -> Detach:
        ask = governed(lambda _: Owned(hooks), _described)
        for name in ("whole", "awaited", "threaded", "tasked"):
            method = ask(getattr(type(target), name))
            setattr(target, name, method.__get__(target))
        return lambda: None


@dataclass
class Owned:
    hooks: Hooks[Line]


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


@pytest.fixture
def echo(engine: ContextEngine) -> Echo:
    made = Echo()
    Echoes().install_ce(made, engine=engine)
    return made


def recorded(engine: ContextEngine) -> dict[str, list[str]]:
    """The messages of each session, under the id that somebody gave it."""
    assert engine.sync.flush()
    found = {}
    for session in engine.sync.list_sessions(user_id=None, ephemeral=True):
        read = engine.sync.get_session(
            Scope(session_id=session.session_id, user_id=session.user_id)
        )
        assert read is not None
        found[session.session_id] = [message.content for message in read.session.messages]
    return found


ANN = ["ann's", "heard: ann's"]
BOB = ["bob's", "heard: bob's"]


@pytest.mark.parametrize("way", ["awaited", "tasked"])
async def test_a_task_that_a_callback_begins_is_a_call_of_its_own(
    engine: ContextEngine, echo: Echo, way: str
) -> None:
    """Of the same model, while the call goes on."""

    def callback() -> None:
        echo.user = "bob"
        begun = asyncio.create_task(echo.awaited([Line("user", "bob's")]))
        echo.waited.append(begun)

    echo.user, echo.callback = "ann", callback
    await getattr(echo, way)([Line("user", "ann's")])
    assert await asyncio.to_thread(recorded, engine) == {"ann": ANN, "bob": BOB}


async def test_a_thread_that_a_callback_begins_is_a_call_of_its_own(
    engine: ContextEngine, echo: Echo
) -> None:
    def ask() -> None:
        with ce_session("bob"):
            echo.whole([Line("user", "bob's")])

    def callback() -> None:
        thread = threading.Thread(target=copy_context().run, args=(ask,))
        thread.start()
        thread.join()

    echo.user, echo.callback = "ann", callback
    await asyncio.to_thread(echo.whole, [Line("user", "ann's")])
    assert await asyncio.to_thread(recorded, engine) == {"ann": ANN, "bob": BOB}


async def test_what_nobody_names_there_is_recorded_too(engine: ContextEngine, echo: Echo) -> None:
    def callback() -> None:
        echo.user = None
        context = copy_context()
        thread = threading.Thread(target=context.run, args=(echo.whole, [Line("user", "aside")]))
        thread.start()
        thread.join()

    echo.user, echo.callback = "ann", callback
    await asyncio.to_thread(echo.whole, [Line("user", "ann's")])
    assert await asyncio.to_thread(recorded, engine) == {"ann": ANN}
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="ann")))
    assert [turn.status for turn in turns] == ["committed"] * 2, "a helper's call: its turn alone"


async def test_a_task_that_outlives_the_call_is_none_of_it(
    engine: ContextEngine, echo: Echo
) -> None:
    over = asyncio.Event()

    async def later() -> None:
        await over.wait()
        await echo.awaited([Line("user", "another")])

    tasks: list[asyncio.Task[None]] = []
    echo.user, echo.callback = "ann", lambda: tasks.append(asyncio.create_task(later()))
    await echo.awaited([Line("user", "ann's")])
    over.set()
    await tasks[0]
    assert await asyncio.to_thread(recorded, engine) == {"ann": [*ANN, "another", "heard: another"]}


@pytest.mark.parametrize("way", ["threaded", "tasked"])
async def test_a_call_that_goes_on_elsewhere_is_still_one(
    engine: ContextEngine, echo: Echo, way: str
) -> None:
    echo.user = "ann"
    for _ in range(2):
        await getattr(echo, way)([Line("user", "ann's")])
    assert await asyncio.to_thread(recorded, engine) == {"ann": ANN * 2}


async def test_a_call_of_another_user_inside_one_is_theirs(
    engine: ContextEngine,
) -> None:
    """Who names a user alone is not in the session of the call around."""
    outer, inner = Echo(), Echo()
    Echoes().install_ce(outer, engine=engine)
    Echoes().install_ce(inner, engine=engine, user_id="bob")
    outer.user = "ann"
    outer.callback = lambda: inner.whole([Line("user", "bob's")])
    await asyncio.to_thread(outer.whole, [Line("user", "ann's")])
    assert (await asyncio.to_thread(recorded, engine))["ann"] == ANN
    sessions = await engine.list_sessions(user_id=None, ephemeral=True)
    assert {(each.user_id, each.turns) for each in sessions} == {("", 1), ("bob", 1)}
