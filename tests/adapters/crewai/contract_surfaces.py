"""Ways in which apps of CrewAI have a model asked, for the contract suite: each request is governed, and once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from crewai import Agent, Crew, Flow, Process, Task
from crewai.flow.flow import start
from crewai.lite_agent import LiteAgent
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool
from pydantic import BaseModel

from ce_integrations.testing.answers import Answer, JsonObject, text, tool_calls
from ce_integrations.testing.framework_apps import Surface
from ce_integrations.testing.wire import Wire


SAID = "A lane is a line. 一条线"


class Meaning(BaseModel):
    """What a word means."""

    word: str
    meaning: str


MEANS = json.dumps({"word": "lane", "meaning": "a line"})


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} 意思"


def agent(model: Any, role: str = "helper", **settings: Any) -> Agent:
    return Agent(role=role, goal="Answer.", backstory="You know words.", llm=model, **settings)


def task(who: Agent | None, words: str = "{text}", **settings: Any) -> Task:
    return Task(description=words, expected_output="A sentence.", agent=who, **settings)


def crew_of(model: Any, **settings: Any) -> Crew:
    who = agent(model)
    return Crew(agents=[who], tasks=[task(who)], **settings)


def way(
    build: Callable[[Any], Any], ask: Callable[[Any, str], Any], script: Any = SAID, **more: Any
) -> Surface:
    """An app, made of a model, and how it is asked."""

    def make(apps: Any, wire: Wire) -> tuple[Any, Callable[[str], Any]]:
        target = build(apps.model(wire))
        return target, lambda said: ask(target, said)

    return Surface(make, script, **more)


def kickoff(crew: Any, said: str) -> str:
    return str(crew.kickoff(inputs={"text": said}))


async def for_each(crew: Any, said: str) -> list[str]:
    return [str(each) for each in await crew.kickoff_for_each_async(inputs=[{"text": said}])]


async def akickoff(crew: Any, said: str) -> str:
    return str(await crew.akickoff(inputs={"text": said}))


async def kickoff_async(crew: Any, said: str) -> str:
    return str(await crew.kickoff_async(inputs={"text": said}))


def streamed(crew: Any, said: str) -> list[str]:
    return [chunk.content for chunk in crew.kickoff(inputs={"text": said})]


def two_tasks(model: Any) -> Crew:
    """One runs beside the other."""
    first, second = agent(model, "first"), agent(model, "second")
    early = task(first, async_execution=True)
    return Crew(agents=[first, second], tasks=[early, task(second, "Sum up.", context=[early])])


def led(model: Any) -> Crew:
    """A manager that is made as it runs, and a coworker."""
    return Crew(
        agents=[agent(model, "expert")],
        tasks=[task(None)],
        process=Process.hierarchical,
        manager_llm=model,
    )


LED = [
    tool_calls(
        [
            (
                "delegate_work_to_coworker",
                {"task": "Say what it is.", "context": "", "coworker": "expert"},
            )
        ]
    ),
    text("A line."),
    text("The expert says: a line."),
]
PLAN = {"list_of_plans_per_task": [{"task_number": 1, "task": "t", "plan": "Think of lines."}]}


def planned(body: JsonObject) -> Answer:
    return text(json.dumps(PLAN) if "response_format" in body else SAID)


def guarded(model: Any) -> Crew:
    who = agent(model)
    return Crew(agents=[who], tasks=[task(who, guardrail="It is about lines.")])


def judged(body: JsonObject) -> Answer:
    judges = "Guardrail" in str(body["messages"]) or "response_format" in body
    return text(json.dumps({"valid": True, "feedback": None}) if judges else SAID)


def converted(model: Any) -> Crew:
    who = agent(model)
    return Crew(agents=[who], tasks=[task(who, output_pydantic=Meaning)])


def means(body: JsonObject) -> Answer:
    return text(MEANS if "response_format" in body else SAID)


def tireless(model: Any) -> Crew:
    """It may ask once, and is then told to answer."""
    who = agent(model, tools=[lookup], max_iter=1)
    return Crew(agents=[who], tasks=[task(who)])


def looks(body: JsonObject) -> Answer:
    if any(message["role"] == "tool" for message in body["messages"]):
        return text(SAID)
    return tool_calls([("lookup", {"word": "lane"})])


class Own(BaseLLM):
    """A user's own model: it calls no functions, and tells of nothing."""

    inner: Any = None

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        return str(self.inner.__class__.call(self.inner, messages))

    def supports_function_calling(self) -> bool:
        return False


def flow_of(model: Any) -> Any:
    class Asking(Flow[dict[str, Any]]):
        @start()
        def begin(self) -> str:
            return str(model.call([{"role": "user", "content": self.state["text"]}]))

    return Asking(suppress_flow_events=True)


def crew_in_flow(model: Any) -> Any:
    class Asking(Flow[dict[str, Any]]):
        @start()
        async def begin(self) -> str:
            return str(await crew_of(model).akickoff(inputs={"text": self.state["text"]}))

    return Asking(suppress_flow_events=True)


def messages(said: str) -> list[Any]:
    return [{"role": "user", "content": said}]


async def acall(model: Any, said: str) -> str:
    return str(await model.acall(messages(said)))


async def in_a_loop(who: Any, said: str) -> str:
    """Where a loop runs, the plain method gives what is to be awaited."""
    given = who.kickoff(said)
    return str((await given if asyncio.iscoroutine(given) else given).raw)


def lite(model: Any) -> LiteAgent:
    return LiteAgent(role="helper", goal="Answer.", backstory="You know words.", llm=model)


SURFACES = {
    "call": way(lambda model: model, lambda model, said: model.call(messages(said))),
    "call with a text": way(lambda model: model, lambda model, said: model.call(said)),
    "acall": way(lambda model: model, acall),
    "agent": way(agent, lambda who, said: who.kickoff(said).raw, history=True),
    "agent in a loop": way(agent, in_a_loop, history=True),
    "lite agent": way(lite, lambda who, said: who.kickoff(said).raw, history=True),
    "crew": way(crew_of, kickoff),
    "crew, awaited": way(crew_of, akickoff),
    "crew, on a thread": way(crew_of, kickoff_async),
    "crew, for each": way(crew_of, for_each),
    "crew, streamed": way(lambda model: crew_of(model, stream=True), streamed),
    "tasks at once": way(two_tasks, kickoff),
    "hierarchical": way(led, kickoff, LED),
    "planning": way(
        lambda model: crew_of(model, planning=True, planning_llm=model), kickoff, planned
    ),
    "guardrail": way(guarded, kickoff, judged),
    "converter": way(converted, kickoff, means),
    "no more iterations": way(tireless, kickoff, looks),
    "flow": way(flow_of, kickoff),
    "crew in a flow": way(crew_in_flow, kickoff),
}
