"""What the tests of CrewAI share: models that talk to a wire, agents, tasks and crews."""

from __future__ import annotations

from typing import Any

from crewai import Agent, Crew, Task
from crewai.llms.providers.openai.completion import OpenAICompletion

from ce_integrations.testing.framework_apps import MODEL
from ce_integrations.testing.wire import Wire


class Windowed(OpenAICompletion):
    """A model with a window of 6,000 tokens, as its own count has it."""

    def get_context_window_size(self) -> int:
        return 6_000


def model(wire: Wire, kind: Any = OpenAICompletion, **settings: Any) -> Any:
    told: dict[str, Any] = {"base_url": wire.base_url, "api_key": "no key", "max_retries": 0}
    return kind(model=MODEL, **told, **settings)


def agent(llm: Any, role: str = "helper", **settings: Any) -> Agent:
    return Agent(role=role, goal="Answer.", backstory="You know words.", llm=llm, **settings)


def task(who: Agent | None, words: str = "{text}", **settings: Any) -> Task:
    return Task(description=words, expected_output="A sentence.", agent=who, **settings)


def crew(*tasks: Task, **settings: Any) -> Crew:
    agents = [each.agent for each in tasks if each.agent is not None]
    made = settings.pop("agents", list({id(each): each for each in agents}.values()))
    return Crew(agents=made, tasks=list(tasks), **settings)
