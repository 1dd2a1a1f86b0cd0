"""Random apps of CrewAI with room: models, agents, crews with tasks at once and in order, flows, asked in any session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from crewai import Agent, Crew, Flow, Process, Task
from crewai.events.utils.console_formatter import set_suppress_console_output
from crewai.flow.flow import start
from crewai.tools import tool

from ce_integrations.crewai import install_ce
from tests.adapters.crewai.contract_apps import AgentApps, PlainApps, Summary
from tests.adapters.crewai.contract_surfaces import SURFACES, in_a_loop, lite, streamed
from tests.adapters.crewai.home import Home
from tests.property import room_cases
from tests.property.room_cases import App, Maker, broken, from_contract, from_surface, lookup


LOOKUP = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look a word up.",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
        },
    },
}


class Rig(room_cases.Rig):
    def __init__(self) -> None:
        self.home = Home()
        super().__init__()
        self.agents, self.plain = AgentApps(), PlainApps()
        self.apps = (self.agents, self.plain)
        set_suppress_console_output(True)

    async def aclose(self) -> None:
        await super().aclose()
        set_suppress_console_output(False)
        self.home.leave()


@dataclass
class Case(room_cases.Case):
    install = staticmethod(install_ce)

    rig: Rig

    def app(self, rng: Random) -> App:
        maker, wire, kind = Apps(rng, self.rig), self.rig.wire, rng.random()
        if kind < 0.25:
            self.counts["surfaces"] += 1
            name = rng.choice(sorted(SURFACES))
            made = from_surface(maker, SURFACES[name], self.rig.plain, wire)
            return App(made.target, made.steps, ordered=name != "tasks at once")
        if kind < 0.45:
            self.counts["apps of the contract"] += 1
            return from_contract(maker, rng.choice((self.rig.agents, self.rig.plain)), wire)
        made_by = rng.choice((maker.models, maker.agents, maker.crews, maker.crews, maker.flows))
        self.counts[made_by.__name__] += 1
        return made_by()

    async def ends(self) -> None:
        for apps in (self.rig.agents, self.rig.plain):
            apps.talks.clear()


class Apps(Maker):
    """Makes apps around models of one wire."""

    def __init__(self, rng: Random, rig: Rig) -> None:
        super().__init__(rng)
        self.rig = rig

    def model(self, **settings: Any) -> Any:
        return self.rig.plain.model(self.rig.wire, **settings)

    def models(self) -> App:
        """A model as code of an app asks it, with the list that it keeps or without one."""
        model, kept = self.model(), [{"role": "system", "content": "You help."}]
        steps = [self._asks(model, question, kept) for question in self.questions()]
        return App(model, self.in_sessions(steps))

    def _asks(self, model: Any, question: str, kept: list[Any]) -> Callable[[], Any]:
        keeps, awaits, told = self.chance(0.6), self.chance(0.5), self._told()

        async def asks() -> str:
            said = {"role": "user", "content": question}
            given = [*kept, said] if keeps else question
            answer = await model.acall(given, **told) if awaits else model.call(given, **told)
            if keeps and isinstance(answer, str):
                kept.extend((said, {"role": "assistant", "content": answer}))
            return answer if isinstance(answer, str) else type(answer).__name__

        return asks

    def _told(self) -> dict[str, Any]:
        tools: dict[str, Any] = {"tools": [LOOKUP]}
        runs = {**tools, "available_functions": {"lookup": lookup}}
        return self.rng.choice(({}, {}, {}, tools, runs, {"response_model": Summary}))

    def agents(self) -> App:
        """Agents that are asked alone, of which two may share a model; copies are asked, too."""
        model = self.model()
        whos = [self._alone(model) for _ in range(self.rng.choice((1, 1, 2)))]
        steps = [self._asked(self.rng.choice(whos), question) for question in self.questions()]
        target = model if len(whos) > 1 or self.chance(0.3) else whos[0]
        return App(target, self.in_sessions(steps))

    def _alone(self, model: Any) -> Any:
        return lite(model) if self.chance(0.2) else self.agent(model, "helper")

    def _asked(self, who: Any, question: str) -> Callable[[], Any]:
        copies = isinstance(who, Agent) and self.chance(0.2)
        told = {"response_format": Summary} if self.chance(0.1) else {}
        if self.chance(0.3):
            return lambda: in_a_loop(who, question)
        if self.chance(0.3):
            messages = [{"role": "user", "content": "Hi."}, {"role": "user", "content": question}]
            return lambda: who.kickoff(messages).raw
        return lambda: (who.copy() if copies else who).kickoff(question, **told).raw

    def agent(self, model: Any, role: str, **settings: Any) -> Agent:
        tools = [tool(each) for each in (lookup, broken)][: self.rng.randint(0, 2)]
        return Agent(
            role=role,
            goal="Answer. 请帮忙。",
            backstory="You know words.",
            llm=model,
            tools=tools,
            max_iter=self.rng.choice((1, 4, 8)),
            max_retry_limit=0,
            **settings,
        )

    def crews(self) -> App:
        """Crews whose agents share a model or have their own; tasks in order, at once, handed out by a manager."""
        crew = self._crew()
        steps = [self._kicked(crew, question) for question in self.questions()[:2]]
        at_once = any(task.async_execution for task in crew.tasks)
        return App(crew, self.in_sessions(steps), ordered=not at_once)

    def _crew(self) -> Crew:
        model = self.model()
        whos: list[Any] = [
            self.agent(
                model if self.chance(0.6) else self.model(),
                role,
                allow_delegation=self.chance(0.3),
            )
            for role in ("lane", "critic")
        ]
        tasks: list[Task] = []
        for _ in range(self.rng.choice((1, 2, 3))):
            tasks.append(self._task(self.rng.choice(whos), tasks))
        if self.chance(0.3):
            tasks.insert(0, self._task(whos[0], (), async_execution=True))
        told: dict[str, Any] = {}
        if self.chance(0.15):
            told = {"process": Process.hierarchical, "manager_llm": model}
        elif self.chance(0.15):
            told = {"planning": True, "planning_llm": model}
        return Crew(agents=whos, tasks=tasks, stream=self.chance(0.15), **told)

    def _task(self, who: Agent, before: Sequence[Task], **settings: Any) -> Task:
        """The value that the wire puts in wherever it has to is `lane`: so an agent is named."""
        if before and self.chance(0.4):
            settings["context"] = [before[-1]]
        if self.chance(0.2):
            settings["output_pydantic"] = Summary
        elif self.chance(0.15):
            settings |= {"guardrail": "It is about lines.", "guardrail_max_retries": 1}
        return Task(
            description=f"{{text}} {self.words()}",
            expected_output="A sentence.",
            agent=who,
            **settings,
        )

    def _kicked(self, crew: Crew, question: str) -> Callable[[], Any]:
        inputs = {"text": question}
        if self.chance(0.3):
            inputs["session_id"] = self.session()
        way = self.rng.choice(("kickoff", "kickoff", "akickoff", "kickoff_async", "each"))
        if crew.stream:
            return lambda: "".join(streamed(crew, question))
        if way == "kickoff":
            return lambda: str(crew.kickoff(inputs=inputs))
        if way == "each":
            return lambda: [str(each) for each in crew.kickoff_for_each(inputs=[inputs, inputs])]

        async def awaited() -> str:
            return str(await getattr(crew, way)(inputs=inputs))

        return awaited

    def flows(self) -> App:
        """Flows whose step asks a model, an agent or a crew."""
        flow = self._flow(self.rng.choice((self._model_asks, self._agent_asks, self._crew_asks))())
        steps = [self._flows(flow, question) for question in self.questions()]
        return App(flow, self.in_sessions(steps))

    def _flow(self, asks: Callable[[str], Any]) -> Any:
        class Asking(Flow[dict[str, Any]]):
            @start()
            def begin(self) -> str:
                return str(asks(self.state["text"]))

        return Asking(suppress_flow_events=True)

    def _flows(self, flow: Any, question: str) -> Callable[[], Any]:
        inputs = {"text": question}
        if self.chance(0.3):
            inputs["id"] = self.session()

        async def awaited() -> str:
            return str(await flow.kickoff_async(inputs=inputs))

        return awaited if self.chance(0.5) else lambda: str(flow.kickoff(inputs=inputs))

    def _model_asks(self) -> Callable[[str], Any]:
        model = self.model()
        return lambda words: model.call([{"role": "user", "content": words}])

    def _agent_asks(self) -> Callable[[str], Any]:
        who = self.agent(self.model(), "helper")
        task = Task(description="{text}", expected_output="A sentence.", agent=who)
        return lambda words: who.execute_task(task, words)

    def _crew_asks(self) -> Callable[[str], Any]:
        who = self.agent(self.model(), "helper")
        task = Task(description="{text}", expected_output="A sentence.", agent=who)
        crew = Crew(agents=[who], tasks=[task])
        return lambda words: crew.kickoff(inputs={"text": words})
