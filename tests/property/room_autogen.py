"""Random apps of AutoGen with room: clients behind caches, agents, teams, runtimes, asked in any session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat
from autogen_core import CancellationToken
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    HeadAndTailChatCompletionContext,
    UnboundedChatCompletionContext,
)
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage
from autogen_ext.models.cache import ChatCompletionCache

from ce_integrations.autogen import install_ce
from tests.adapters.autogen.contract_apps import AgentApps, CoreApps, PlainApps
from tests.adapters.autogen.contract_surfaces import SURFACES
from tests.property import room_cases
from tests.property.room_cases import App, Maker, broken, from_contract, from_surface, lookup


Rig = room_cases.Rig


@dataclass
class Case(room_cases.Case):
    install = staticmethod(install_ce)

    def app(self, rng: Random) -> App:
        self.apps: Any = rng.choice((AgentApps, AgentApps, PlainApps, CoreApps))()
        kind, wire = rng.random(), self.rig.wire
        maker = Apps(rng, lambda: self.apps.client(wire))
        if kind < 0.25:
            self.apps = AgentApps()
            self.counts["surfaces"] += 1
            surface = SURFACES[rng.choice(sorted(SURFACES))]
            return from_surface(maker, surface, self.apps, wire)
        if kind < 0.5:
            self.counts["apps of the contract"] += 1
            return from_contract(maker, self.apps, wire)
        made = rng.choice((maker.clients, maker.agents, maker.agents, maker.teams))
        self.counts[made.__name__] += 1
        return made()

    async def ends(self) -> None:
        await self.apps.aclose()


class Apps(Maker):
    def __init__(self, rng: Random, client: Callable[[], Any]) -> None:
        super().__init__(rng)
        self.client = client

    def clients(self) -> App:
        """A client as code of an app asks it, often behind a cache, which must go on hitting."""
        client = self.client()
        asked: Any = ChatCompletionCache(client) if self.chance(0.5) else client
        kept: list[LLMMessage] = [SystemMessage(content="You help.")]
        steps = [self._create(asked, q, kept) for q in self.questions()]
        return App(asked if self.chance(0.5) else client, self.in_sessions(steps))

    def _create(self, client: Any, question: str, kept: list[LLMMessage]) -> Callable[[], Any]:
        keeps, streams = self.chance(0.3), self.chance(0.3)

        async def create() -> str:
            said = UserMessage(content=question, source="user")
            given = [*kept, said] if keeps else [said]
            if streams:
                pieces = [piece async for piece in client.create_stream(given)]
                result = pieces[-1]
            else:
                result = await client.create(given)
            if keeps:
                kept.extend((said, AssistantMessage(content=str(result.content), source="ann")))
            return f"{result.content} {result.cached}"

        return create

    def agents(self) -> App:
        """An agent that is asked again and again, reset now and then."""
        agent = self.agent("ann", self.client())
        steps: list[Callable[[], Any]] = [self._run(agent, q) for q in self.questions()]
        if self.chance(0.2):
            steps.insert(1, lambda: agent.on_reset(CancellationToken()))
        return App(agent, self.in_sessions(steps))

    def agent(self, name: str, client: Any) -> AssistantAgent:
        contexts: tuple[Callable[[], Any], ...] = (
            UnboundedChatCompletionContext,
            lambda: BufferedChatCompletionContext(buffer_size=4),
            lambda: HeadAndTailChatCompletionContext(head_size=2, tail_size=3),
        )
        tools: list[Any] = [lookup, broken][: self.rng.randint(0, 2)]
        return AssistantAgent(
            name,
            client,
            tools=tools,
            model_context=self.rng.choice(contexts)(),
            reflect_on_tool_use=self.chance(0.5),
            model_client_stream=self.chance(0.3),
            description=f"A {name}.",
        )

    def teams(self) -> App:
        """Teams whose agents share a client or have their own, run again and again."""
        client = self.client()
        members: list[Any] = [
            self.agent(name, client if self.chance(0.5) else self.client())
            for name in ("ann", "critic")
        ]
        most = MaxMessageTermination(self.rng.choice((2, 3, 4)))
        team: Any = (
            SelectorGroupChat(members, client, termination_condition=most)
            if self.chance(0.3)
            else RoundRobinGroupChat(members, termination_condition=most)
        )
        steps: list[Callable[[], Any]] = [self._run(team, q) for q in self.questions()]
        if self.chance(0.3):
            steps.insert(1, team.reset)
        return App(team, self.in_sessions(steps))

    def _run(self, target: Any, question: str) -> Callable[[], Any]:
        streams = self.chance(0.4)

        async def run() -> list[str]:
            if streams:
                return [type(event).__name__ async for event in target.run_stream(task=question)]
            result = await asyncio.wait_for(target.run(task=question), 60)
            return [repr(getattr(message, "content", "")) for message in result.messages]

        return run
