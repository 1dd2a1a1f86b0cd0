"""Acme's adapter keeps the contract of adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest
from acme_agents import Agent, Message, Model, Piece
from ce_acme import ADAPTER

from ce_integrations.testing import (
    MODEL,
    SYSTEM,
    AdapterContract,
    Surface,
    Tool,
    Wire,
    in_session,
    text,
    tool_calls,
)


class Noting(Model):
    """Notes the messages that it is given."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(MODEL, wire.base_url)
        self.received: list[list[Message]] = []

    def complete(self, messages: Sequence[Message], *args: Any) -> Message:
        self.received.append(list(messages))
        return super().complete(messages, *args)

    async def acomplete(self, messages: Sequence[Message], *args: Any) -> Message:
        self.received.append(list(messages))
        return await super().acomplete(messages, *args)

    def stream(self, messages: Sequence[Message], *args: Any) -> Iterator[Piece]:
        self.received.append(list(messages))
        return super().stream(messages, *args)

    def astream(self, messages: Sequence[Message], *args: Any) -> AsyncIterator[Piece]:
        self.received.append(list(messages))
        return super().astream(messages, *args)


def by_hand(ask: Callable[[Agent, list[Message]], Any]) -> Surface:
    """An agent's model, asked past the agent's own history."""

    def make(_: Any, wire: Wire) -> tuple[Agent, Callable[[str], Any]]:
        agent = Agent("helper", Noting(wire), SYSTEM)
        return agent, lambda text: ask(agent, [Message("user", text)])

    return Surface(make)


async def pieces(agent: Agent, messages: list[Message]) -> list[str]:
    return [piece.text async for piece in agent.astream_model(messages)]


@pytest.mark.req("A-23", "A-24", "A-27")
class TestAcme(AdapterContract):
    adapter = ADAPTER
    packages = ("acme_agents",)
    team_script = (
        tool_calls([("ask_expert", {"text": "What is a lane?"})]),
        text("A lane is a line of conversation."),
        text("The expert says: a line."),
    )
    team_agents = ("helper", "expert", "helper")
    surfaces: ClassVar[dict[str, Surface]] = {
        "ask_model": by_hand(lambda agent, said: agent.ask_model(said)),
        "aask_model": by_hand(lambda agent, said: agent.aask_model(said)),
        "stream_model": by_hand(lambda agent, said: [p.text for p in agent.stream_model(said)]),
        "astream_model": by_hand(pieces),
    }

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Agent:
        return Agent("helper", Noting(wire), SYSTEM, tools)

    def make_team(self, wire: Wire) -> Agent:
        model = Noting(wire)
        return Agent("helper", model, SYSTEM, (), [Agent("expert", model, "You know it all.")])

    def ask(self, target: Agent, text: str, session_id: str) -> str:
        with in_session(session_id):
            return target.run(text)

    async def aask(self, target: Agent, text: str, session_id: str) -> str:
        async with in_session(session_id):
            return await target.arun(text)

    def stream(self, target: Agent, text: str, session_id: str) -> Iterator[str]:
        with in_session(session_id):
            yield from target.stream(text)

    async def astream(self, target: Agent, text: str, session_id: str) -> AsyncIterator[str]:
        async with in_session(session_id):
            async for piece in target.astream(text):
                yield piece

    def received(self, target: Agent) -> list[list[Message]]:
        assert isinstance(target.model, Noting)
        return target.model.received
