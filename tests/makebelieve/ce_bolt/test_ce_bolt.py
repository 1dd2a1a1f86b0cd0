"""Bolt's adapter keeps the contract of adapters, and what would not is caught."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import pytest
from bolt_flows import Agent, ChatModel, Condenser, Flow, Message, Shelf
from ce_bolt import ADAPTER

from ce_integrations.calls import hooks
from ce_integrations.calls.requested_tools import RequestedTools
from ce_integrations.calls.tool_methods import RetrievalRecorder, ToolRecorder
from ce_integrations.identity.unnamed_sessions import UnnamedSessions
from ce_integrations.testing import (
    MODEL,
    SYSTEM,
    AdapterContract,
    Page,
    Surface,
    Tool,
    Wire,
    in_session,
)
from tests.adapters.mutants import ASIDE, FOUND, NOBODY, ROWS, Mutant, Patch
from tests.adapters.push_mutants import PUSHED


CONDENSING = "Say in three words"


class Noting(ChatModel):
    """Notes the messages that it is given."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(MODEL, wire.base_url)
        self.received: list[list[Message]] = []

    def run(self, messages: list[Message], *args: Any, **named: Any) -> dict[str, Any]:
        self.received.append(list(messages))
        return super().run(messages, *args, **named)

    async def arun(self, messages: list[Message], *args: Any, **named: Any) -> dict[str, Any]:
        self.received.append(list(messages))
        return await super().arun(messages, *args, **named)


Talks = defaultdict[str, list[Message]]
TALKS: WeakKeyDictionary[Flow, Talks] = WeakKeyDictionary()
"""What an app keeps of its talks: parts keep nothing."""


def model_alone(ask: Callable[[Noting, list[Message]], Any]) -> Surface:
    def make(_: Any, wire: Wire) -> tuple[Noting, Callable[[str], Any]]:
        model = Noting(wire)
        return model, lambda text: ask(model, [Message("system", SYSTEM), Message("user", text)])

    return Surface(make)


def flow(*parts: Any) -> Flow:
    made = Flow(*parts)
    TALKS[made] = defaultdict(list)
    return made


@pytest.mark.req("A-23", "A-24", "A-27")
class TestBolt(AdapterContract):
    adapter = ADAPTER
    packages = ("bolt_flows",)
    surfaces: ClassVar[dict[str, Surface]] = {
        "run": model_alone(lambda model, said: model.run(said)),
        "arun": model_alone(lambda model, said: model.arun(said)),
        "run by name": model_alone(lambda model, said: model.run(messages=said)),
    }

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Flow:
        return flow(Agent("helper", Noting(wire), SYSTEM, tools))

    def make_helped(self, wire: Wire) -> Flow:
        model = Noting(wire)
        return flow(Condenser(model), Agent("helper", model, SYSTEM))

    def aside(self, body: dict[str, Any]) -> str | None:
        asked = str(body["messages"][-1]["content"])
        return "what it means" if CONDENSING in asked else None

    def make_retrieving(self, wire: Wire, pages: Sequence[Page]) -> Flow:
        found = [{"text": page.text, "uri": page.uri, "score": page.score} for page in pages]
        return flow(Shelf(found), Agent("helper", Noting(wire), SYSTEM))

    def ask(self, target: Flow, text: str, session_id: str) -> str:
        return self.push(target, text, session_id, None)

    async def aask(self, target: Flow, text: str, session_id: str) -> str:
        return await self.apush(target, text, session_id, None)

    def push(
        self, target: Flow, text: str, session_id: str, heard: Callable[[str], None] | None
    ) -> str:
        talk = [*TALKS[target][session_id], Message("user", text)]
        listening = {"on_piece": lambda piece: heard(piece["text"])} if heard else {}
        with in_session(session_id):
            found = target.run(messages=talk, query=text, **listening)
        TALKS[target][session_id] = found["messages"]
        return str(found["messages"][-1].text)

    async def apush(
        self, target: Flow, text: str, session_id: str, heard: Callable[[str], None] | None
    ) -> str:
        async def on_piece(piece: dict[str, Any]) -> None:
            assert heard is not None
            heard(piece["text"])

        talk = [*TALKS[target][session_id], Message("user", text)]
        listening = {"on_piece": on_piece} if heard else {}
        with in_session(session_id):
            found = await target.arun(messages=talk, query=text, **listening)
        TALKS[target][session_id] = found["messages"]
        return str(found["messages"][-1].text)

    def received(self, target: Any) -> list[list[Message]]:
        parts = (
            [target]
            if isinstance(target, Noting)
            else [part.model for part in target.parts if hasattr(part, "model")]
        )
        models = {id(part): part for part in parts}
        return [each for model in models.values() for each in model.received]


# What an adapter gets wrong of a framework that tells nobody of its tools


def claims_nothing(patch: Patch, _: object) -> None:
    """Runs of tools are no model's."""
    patch.setattr(RequestedTools, "claim", lambda *_: None)


def claims_any(patch: Patch, _: object) -> None:
    """Whatever waits first is what runs."""

    def first(self: Any, info: Any, *_: Any) -> Any:
        line = self._lines.get((info.request_id, info.lane_key or "")) or ()
        return next((waiting.popitem()[1] for waiting in line if waiting), None)

    patch.setattr(RequestedTools, "claim", first)


def records_twins(patch: Patch, _: object) -> None:
    """An awaited run that hands on to a thread is recorded twice."""
    for recorder in (ToolRecorder, RetrievalRecorder):
        patch.setattr(recorder, "_around", lambda *_: None)


def overlooks_asides(patch: Patch, _: object) -> None:
    """What a framework asks for itself is taken for the talk."""
    patch.setattr(hooks, "is_aside", lambda: False)


def knows_no_agent_that_keeps_nothing(patch: Patch, _: object) -> None:
    """Each run of a conversation that nobody named is on its own."""
    patch.setattr(UnnamedSessions, "number_of", lambda *_: None)


OWN = [
    Mutant(claims_nothing, "agent", ROWS),
    Mutant(claims_any, "agent", ROWS, "awaited"),
    Mutant(records_twins, "agent", ROWS, "awaited"),
    Mutant(records_twins, "agent", FOUND, "awaited"),
    Mutant(overlooks_asides, "agent", ASIDE),
    Mutant(knows_no_agent_that_keeps_nothing, "agent", NOBODY),
]


@pytest.mark.req("A-27")
@pytest.mark.parametrize(
    "mutant", [*OWN, *PUSHED], ids=lambda mutant: f"{mutant.name}-{mutant.test[5:20]}"
)
def test_a_mutant_is_caught(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant.is_caught(TestBolt, monkeypatch)
