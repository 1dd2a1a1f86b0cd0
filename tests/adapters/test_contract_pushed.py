"""The contract of a framework that gives answers whole, and pushes their pieces to a callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from ce_engine import HostMessage, Message, Origin, Role, Step
from ce_integrations.install.adapter import Adapter, CallInfo, Capabilities, Detach, Hooks
from ce_integrations.install.marks import Attribute, Mark, Marking
from ce_integrations.mapping.content_blocks import changed
from ce_integrations.testing import MODEL, AdapterContract, Wire, in_session
from tests.adapters.heralds import Herald, Note
from tests.adapters.mutants import NOBODY, Mutant
from tests.adapters.push_mutants import PUSHED
from tests.adapters.session_mutants import Patch, forgets_its_answers


PACKAGES = ("tests.adapters.heralds",)


class HeraldMark(Mark):
    def info(self, subject: Herald) -> CallInfo:
        self.new_request()
        return CallInfo(self.request_id, model=MODEL, conversation=subject)


MARKING = Marking(
    Attribute("_ce_mark"),
    {Herald: ("ask_model", "aask_model")},
    text=lambda piece: piece["text"],
    packages=PACKAGES,
    answers=lambda result: [(answer, None) for answer in result["replies"]],
    callback="on_piece",
)


class HeraldAdapter(Adapter[Herald, Note]):
    name, requires, targets = "herald", ("pydantic>=2",), "a Herald"
    capabilities = Capabilities(
        ways=("sync", "async", "push", "apush"),
        tools=False,
        teams=False,
        usage=False,
        threads=False,
    )

    def accepts(self, target: object) -> bool:
        return isinstance(target, Herald)

    def attach(self, target: Herald, hooks: Hooks[Note]) -> Detach:
        return MARKING.attach(target, hooks, HeraldMark)

    def is_attached(self, target: Herald) -> bool:
        return MARKING.is_attached(target)

    def to_schema(self, native: Note) -> HostMessage:
        origins = {"user": Origin.TASK, "assistant": Origin.ANSWER, "system": Origin.SYSTEM}
        message = Message(role=Role(native.role), content=native.content)
        return HostMessage(message, origins[native.role])

    def to_native(self, step: Step, native: Note | None) -> Note:
        kept = native or Note(getattr(step, "role", Role.SYSTEM).value, "")
        return Note(kept.role, changed(kept.content, step))


class TestHeralds(AdapterContract):
    adapter: ClassVar[Adapter[Any, Any]] = HeraldAdapter()
    packages = PACKAGES

    def make_target(self, wire: Wire, tools: Any = ()) -> Herald:
        return Herald(wire)

    def ask(self, target: Herald, text: str, session_id: str) -> str:
        with in_session(session_id):
            return target.run(text)

    async def aask(self, target: Herald, text: str, session_id: str) -> str:
        with in_session(session_id):
            return await target.arun(text)

    def push(self, target: Herald, text: str, session_id: str, heard: Callable[[str], None]) -> str:
        with in_session(session_id):
            return target.run(text, lambda piece: heard(piece["text"]))

    async def apush(
        self, target: Herald, text: str, session_id: str, heard: Callable[[str], None]
    ) -> str:
        async def on_piece(piece: dict[str, Any]) -> None:
            heard(piece["text"])

        with in_session(session_id):
            return await target.arun(text, on_piece)

    def received(self, target: Herald) -> list[list[Note]]:
        return target.received


@pytest.mark.req("A-27")
@pytest.mark.parametrize(
    "mutant",
    [*PUSHED, Mutant(forgets_its_answers, "plain", NOBODY)],
    ids=lambda mutant: f"{mutant.name}-{mutant.test[5:20]}",
)
def test_a_mutant_is_caught(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant.is_caught(TestHeralds, monkeypatch)
