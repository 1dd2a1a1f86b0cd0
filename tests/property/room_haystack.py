"""Random apps of Haystack with room: models, pipelines over documents, agents with tools that ask others."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from random import Random
from typing import Any

from haystack import Pipeline, SuperComponent
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import LLM, FallbackChatGenerator
from haystack.components.rankers import LLMRanker
from haystack.dataclasses import ChatMessage
from haystack.tools.component_tool import ComponentTool
from haystack.tools.from_function import create_tool_from_function

from ce_integrations.haystack import install_ce
from tests.adapters.haystack.contract_apps import AgentApps, PipelineApps, Shelf
from tests.adapters.haystack.contract_surfaces import SURFACES, Own
from tests.property import room_cases
from tests.property.room_cases import (
    PAGES,
    App,
    Maker,
    broken,
    from_contract,
    from_surface,
    lookup,
)


class Rig(room_cases.Rig):
    def __init__(self) -> None:
        super().__init__()
        self.agents, self.pipelines = AgentApps(), PipelineApps()
        self.apps = (self.agents, self.pipelines)


@dataclass
class Case(room_cases.Case):
    install = staticmethod(install_ce)

    rig: Rig

    def app(self, rng: Random) -> App:
        maker, wire, kind = Apps(rng, self.rig), self.rig.wire, rng.random()
        if kind < 0.3:
            self.counts["surfaces"] += 1
            surface = SURFACES[rng.choice(sorted(SURFACES))]
            return from_surface(maker, surface, self.rig.pipelines, wire)
        if kind < 0.5:
            self.counts["apps of the contract"] += 1
            return from_contract(maker, rng.choice((self.rig.agents, self.rig.pipelines)), wire)
        made = rng.choice((maker.models, maker.pipelines, maker.agents, maker.agents))
        self.counts[made.__name__] += 1
        return made()


class Apps(Maker):
    """Makes apps around models of one wire."""

    def __init__(self, rng: Random, rig: Rig) -> None:
        super().__init__(rng)
        self.rig = rig

    def model(self) -> Any:
        made: Any = self.rig.pipelines.model(self.rig.wire)
        return FallbackChatGenerator([made]) if self.chance(0.2) else made

    def models(self) -> App:
        """A model as code of an app asks it, with the list that it keeps or without one."""
        model, kept = self.model(), [ChatMessage.from_system("You help.")]
        steps = [self._run(model, question, kept) for question in self.questions()]
        return App(model, self.in_sessions(steps))

    def _run(self, model: Any, question: str, kept: list[ChatMessage]) -> Callable[[], Any]:
        keeps, awaits, told = self.chance(0.5), self.chance(0.5), self._callback()

        async def arun() -> str:
            said = ChatMessage.from_user(question)
            given = [*kept, said] if keeps else [said]
            found = model.run_async(given, **told) if awaits else None
            done = model.run(messages=given, **told) if found is None else await found
            if keeps:
                kept.extend((said, done["replies"][0]))
            return repr([each.text for each in done["replies"]])

        return arun

    def _callback(self) -> dict[str, Any]:
        return {"streaming_callback": lambda _: None} if self.chance(0.3) else {}

    def pipelines(self) -> App:
        """Documents, a ranker now and then, and a model, an agent or an LLM that answers; perhaps in one component."""
        pipeline = self._pipeline()
        if self.chance(0.2):
            target: Any = SuperComponent(pipeline)
            steps: list[Any] = [
                lambda q=question: repr(sorted(target.run(query=q)))
                for question in self.questions()
            ]
            return App(target, self.in_sessions(steps))
        steps = [self._asked(pipeline, question) for question in self.questions()]
        return App(pipeline, self.in_sessions(steps))

    def _pipeline(self) -> Pipeline:
        made = Pipeline()
        prompt = "{% for each in documents %}{{each.content}}\n{% endfor %}{{query}}"
        template = [ChatMessage.from_system("You help."), ChatMessage.from_user(prompt)]
        made.add_component("shelf", Shelf(PAGES))
        made.add_component("prompt", ChatPromptBuilder(template=template))
        if self.chance(0.3):
            made.add_component("ranker", LLMRanker(chat_generator=self.model()))
            made.connect("shelf.documents", "ranker.documents")
            made.connect("ranker.documents", "prompt.documents")
        else:
            made.connect("shelf.documents", "prompt.documents")
        if self.chance(0.3):
            made.add_component("llm", self._agent())
        else:
            made.add_component("llm", self.model())
        made.connect("prompt.prompt", "llm.messages")
        return made

    def _asked(self, pipeline: Pipeline, question: str) -> Callable[[], Any]:
        way = self.rng.choice(("run", "run_async", "stream"))
        names = {"shelf", "prompt", "ranker"} & set(pipeline.graph.nodes)

        async def asked() -> str:
            data = {name: {"query": question} for name in sorted(names)}
            if way == "run":
                return repr(sorted(pipeline.run(data)["llm"]))
            if way == "run_async":
                return repr(sorted((await pipeline.run_async(data))["llm"]))
            return "".join([chunk.content async for chunk in pipeline.stream(data)])

        return asked

    def agents(self) -> App:
        """Agents, with the list that the app keeps or without one; copies are asked, too."""
        agent: Any = self._agent()
        if self.chance(0.2):
            agent = LLM(chat_generator=self.model(), system_prompt="You help.")
        kept: list[ChatMessage] = []
        steps = [self._works(agent, question, kept) for question in self.questions()]
        return App(agent, self.in_sessions(steps))

    def _agent(self) -> Agent:
        tools: list[Any] = [create_tool_from_function(each) for each in (lookup, broken)]
        tools = tools[: self.rng.randint(0, 2)]
        if self.chance(0.3):
            own = Own(self.model())
            tools.append(ComponentTool(component=own, name="expert", description="Knows."))
        return Agent(chat_generator=self.model(), tools=tools, max_agent_steps=6)

    def _works(self, agent: Any, question: str, kept: list[ChatMessage]) -> Callable[[], Any]:
        keeps, awaits, copies = self.chance(0.6), self.chance(0.5), self.chance(0.2)
        told = self._callback()

        async def works() -> str:
            said = ChatMessage.from_user(question)
            asked, given = copy(agent) if copies else agent, [*kept, said] if keeps else [said]
            if awaits:
                done = await asked.run_async(messages=given, **told)
            else:
                done = asked.run(messages=given, **told)
            if keeps:
                kept[:] = [each for each in done["messages"] if not each.is_from("system")]
            return str(done["last_message"].text)

        return works
