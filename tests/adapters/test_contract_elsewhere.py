"""The contract of a framework that works in a task of its own, where no session reaches it by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import httpx
import pytest

from ce_engine import HostMessage, Message, Origin, Role, Step
from ce_integrations.calls.agent_steps import Step as WorkStep
from ce_integrations.calls.agent_steps import deeper, step_around, stepping
from ce_integrations.install.adapter import Adapter, Capabilities, Detach, GovernedCall, Hooks
from ce_integrations.mapping.content_blocks import changed
from ce_integrations.testing import MODEL, SYSTEM, AdapterContract, Wire, in_session
from ce_integrations.wrapping.patches import ClassPatches, Make, definitions
from tests.adapters.mutants import ELSEWHERE, NOBODY, Mutant
from tests.adapters.session_mutants import Patch, forgets_its_answers, shares_what_nobody_named


@dataclass(frozen=True)
class Note:
    role: str
    content: str


class Office:
    """One conversation, in which a task answers that began when the office was opened."""

    def __init__(self, wire: Wire) -> None:
        self.url = f"{wire.base_url}/chat/completions"
        self.history = [Note("system", SYSTEM)]
        self.received: list[list[Note]] = []
        self.inbox: asyncio.Queue[tuple[str, asyncio.Future[str]]] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None

    def open(self) -> None:
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self.work())

    async def work(self) -> None:
        while True:
            text, done = await self.inbox.get()
            self.history.append(Note("user", text))
            try:
                self.history.append(await self.ask_model(self.history))
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(self.history[-1].content)

    async def run(self, text: str) -> str:
        self.open()
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        await self.inbox.put((text, done))
        return await done

    async def ask_model(self, messages: list[Note]) -> Note:
        self.received.append(messages)
        body = {"model": MODEL, "messages": [vars(each) for each in messages]}
        async with httpx.AsyncClient(trust_env=False) as client:
            found = (await client.post(self.url, json=body)).json()
        return Note("assistant", found["choices"][0]["message"]["content"])


_hooks: WeakKeyDictionary[Office, Hooks[Note]] = WeakKeyDictionary()
_running: WeakKeyDictionary[Office, WorkStep] = WeakKeyDictionary()
_patches = ClassPatches()


def _runs(original: Callable[..., Any]) -> Callable[..., Any]:
    async def run(self: Office, text: str) -> Any:
        _running[self] = deeper(self, "office", _hooks.get(self), conversation=self)
        return await original(self, text)

    return run


def _asks(original: Callable[..., Any]) -> Callable[..., Any]:
    async def ask_model(self: Office, messages: list[Note]) -> Any:
        step = _running[self]
        if step.hooks is None:
            return await original(self, messages)
        with stepping(step):
            assert step_around() is step
            info = step.info(model=MODEL)
            call: GovernedCall[Note] = GovernedCall(
                step.hooks, self, [messages], lambda: [(messages, info)], lambda _, sent: sent
            )
            return await call.arun(
                lambda goes: original(self, goes[0]), lambda said: [(said, None)]
            )

    return ask_model


class OfficeAdapter(Adapter[Office, Note]):
    name, requires, targets = "office", (), "an Office"
    capabilities = Capabilities(
        ways=("async",), tools=False, teams=False, usage=False, threads=False, elsewhere=True
    )

    def accepts(self, target: object) -> bool:
        return isinstance(target, Office)

    def attach(self, target: Office, hooks: Hooks[Note]) -> Detach:
        makers: dict[type, dict[str, Make]] = {Office: {"run": _runs, "ask_model": _asks}}
        let_go = _patches.hold(definitions(makers, [target]), hooks)
        _hooks[target] = hooks

        def detach() -> None:
            _hooks.pop(target, None)
            let_go()

        return detach

    def to_schema(self, native: Note) -> HostMessage:
        origins = {"user": Origin.TASK, "assistant": Origin.ANSWER, "system": Origin.SYSTEM}
        message = Message(role=Role(native.role), content=native.content)
        return HostMessage(message, origins[native.role])

    def to_native(self, step: Step, native: Note | None) -> Note:
        kept = native or Note("system", "")
        return Note(kept.role, changed(kept.content, step))


class Offices(AdapterContract):
    adapter: ClassVar[Adapter[Any, Any]] = OfficeAdapter()
    packages = (__name__,)

    def make_target(self, wire: Wire, tools: Any = ()) -> Office:
        return Office(wire)

    def make_elsewhere(self, wire: Wire) -> Office:
        office = Office(wire)
        office.open()
        return office

    async def aask(self, target: Office, text: str, session_id: str) -> str:
        with in_session(session_id):
            return await target.run(text)

    def received(self, target: Office) -> list[list[Note]]:
        return target.received


MUTANTS = [
    *ELSEWHERE,
    Mutant(forgets_its_answers, "plain", NOBODY),
    Mutant(shares_what_nobody_named, "plain", NOBODY),
]


@pytest.mark.req("A-27")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant.is_caught(Offices, monkeypatch)
