"""Random apps of Semantic Kernel with room: services, prompts, agents, chats, orchestrations, asked in any session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from semantic_kernel import Kernel
from semantic_kernel.agents import (
    AgentGroupChat,
    ChatCompletionAgent,
    ChatHistoryAgentThread,
    SequentialOrchestration,
)
from semantic_kernel.agents.strategies import DefaultTerminationStrategy
from semantic_kernel.contents import ChatHistory

from ce_integrations.semantic_kernel import install_ce
from tests.adapters.semantic_kernel.contract_apps import (
    AgentApps,
    PlainApps,
    ServiceApps,
    answered,
    plugin,
)
from tests.adapters.semantic_kernel.contract_surfaces import SURFACES, orchestrate
from tests.property import room_cases
from tests.property.room_cases import App, Maker, broken, from_contract, from_surface, lookup


Rig = room_cases.Rig


@dataclass
class Case(room_cases.Case):
    install = staticmethod(install_ce)

    def app(self, rng: Random) -> App:
        self.apps: Any = rng.choice((AgentApps, AgentApps, PlainApps, ServiceApps))()
        kind, wire = rng.random(), self.rig.wire
        maker = Apps(rng, lambda: self.apps.service(wire))
        if kind < 0.25:
            self.apps = AgentApps()
            self.counts["surfaces"] += 1
            surface = SURFACES[rng.choice(sorted(SURFACES))]
            return from_surface(maker, surface, self.apps, wire)
        if kind < 0.5:
            self.counts["apps of the contract"] += 1
            return from_contract(maker, self.apps, wire)
        made = rng.choice((maker.services, maker.agents, maker.agents, maker.groups))
        self.counts[made.__name__] += 1
        return made()

    async def ends(self) -> None:
        await self.apps.aclose()


class Apps(Maker):
    def __init__(self, rng: Random, service: Callable[[], Any]) -> None:
        super().__init__(rng)
        self.service = service

    def plugins(self) -> list[Any]:
        tools = [lookup, broken][: self.rng.randint(0, 2)]
        return [plugin(tools)] if tools else []

    def services(self) -> App:
        """A service as code of an app asks it: with a history that it keeps, or by a prompt."""
        service = self.service()
        kernel = Kernel(services=[service], plugins=self.plugins())
        kept = ChatHistory(system_message="You help.")
        steps = [self._ask(service, kernel, q, kept) for q in self.questions()]
        return App(kernel if self.chance(0.5) else service, self.in_sessions(steps))

    def _ask(
        self, service: Any, kernel: Kernel, question: str, kept: ChatHistory
    ) -> Callable[[], Any]:
        keeps, streams, prompts = self.chance(0.5), self.chance(0.3), self.chance(0.3)

        async def ask() -> str:
            if prompts:
                return str(await kernel.invoke_prompt("{{$said}}", said=question))
            history = kept if keeps else ChatHistory()
            history.add_user_message(question)
            said = answered(service, history, kernel, streams=streams)
            return "".join([piece async for piece in said])

        return ask

    def agents(self) -> App:
        """An agent that is asked again and again, in one thread or in new ones."""
        agent = self.agent("ann", self.service())
        thread = ChatHistoryAgentThread(thread_id=self.rng.choice((None, "mine")))
        steps = [self._run(agent, q, thread) for q in self.questions()]
        return App(agent, self.in_sessions(steps))

    def agent(self, name: str, service: Any) -> ChatCompletionAgent:
        inner = [self.agent("expert", service)] if name == "ann" and self.chance(0.2) else []
        return ChatCompletionAgent(
            name=name,
            description=f"A {name}.",
            service=service,
            instructions="You help. 请帮忙。",
            plugins=[*self.plugins(), *inner],
        )

    def _run(self, agent: Any, question: str, thread: Any) -> Callable[[], Any]:
        streams, keeps = self.chance(0.4), self.chance(0.7)

        async def run() -> list[str]:
            given = thread if keeps else None
            if streams:
                return [str(piece) async for piece in agent.invoke_stream(question, thread=given)]
            return [str(await agent.get_response(question, thread=given))]

        return run

    def groups(self) -> App:
        """Chats and sequences whose agents share a service or have their own, asked again and again."""
        service = self.service()
        members: list[Any] = [
            self.agent(name, service if self.chance(0.5) else self.service())
            for name in ("writer", "critic")
        ]
        if self.chance(0.5):
            team: Any = SequentialOrchestration(members=members)
            return App(
                team, self.in_sessions([self._orchestrate(team, q) for q in self.questions()])
            )
        turns = DefaultTerminationStrategy(maximum_iterations=self.rng.choice((1, 2, 3)))
        chat = AgentGroupChat(agents=members, termination_strategy=turns)
        return App(chat, self.in_sessions([self._chat(chat, q) for q in self.questions()]))

    def _orchestrate(self, team: Any, question: str) -> Callable[[], Any]:
        return lambda: orchestrate(team, question)

    def _chat(self, chat: Any, question: str) -> Callable[[], Any]:
        streams = self.chance(0.4)

        async def ask() -> list[str]:
            await chat.add_chat_message(question)
            said = chat.invoke_stream() if streams else chat.invoke()
            return [str(message) async for message in said]

        return ask
