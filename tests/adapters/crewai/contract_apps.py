"""Apps of CrewAI for the contract suite: an agent that is spoken with, a crew that delegates, a model alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

from crewai import Agent, Crew, Task
from crewai.core.providers.human_input import SyncHumanInputProvider, reset_provider, set_provider
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.tools import tool
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient
from pydantic import PrivateAttr

from ce_integrations.base import Adapter
from ce_integrations.crewai.installer import ADAPTER
from ce_integrations.testing.answers import Answer, text, tool_calls
from ce_integrations.testing.framework_apps import (
    MODEL,
    SYSTEM,
    FrameworkApps,
    Tool,
    in_session,
)
from ce_integrations.testing.wire import Wire
from ce_integrations.walk import walk
from tests.adapters.clients import no_certificates


PACKAGES = ("crewai",)


class Noting(OpenAICompletion):
    """Notes the messages that reach a provider's own code."""

    _received: list[list[Any]] = PrivateAttr(default_factory=list)

    def _format_messages(self, messages: Any, **kwargs: Any) -> Any:
        self._received.append(list(messages))
        return super()._format_messages(messages, **kwargs)


class Talk(SyncHumanInputProvider):
    """Keeps the messages of a conversation: the framework's own way to go on with one."""

    def __init__(self) -> None:
        self.messages: list[Any] = [{"role": "system", "content": SYSTEM}]
        self.context: Any = None

    def setup_messages(self, context: Any) -> bool:
        self.context = context
        context.messages.extend(self.messages)
        return True

    def hear(self, answer: Any) -> str:
        """Go on with the messages of the run, and what came of it."""
        self.messages = list(self.context.messages)
        if self.messages[-1]["role"] != "assistant":  # an agent without tools leaves it out
            self.messages.append({"role": "assistant", "content": answer.raw})
        return str(answer.raw)


class CrewApps(FrameworkApps):
    packages = PACKAGES

    @cached_property
    def clients(self) -> tuple[DefaultHttpxClient, DefaultAsyncHttpxClient]:
        verify = no_certificates()
        return DefaultHttpxClient(verify=verify), DefaultAsyncHttpxClient(verify=verify)

    def model(self, wire: Wire, **settings: Any) -> Noting:
        model = Noting(
            model=MODEL, base_url=wire.base_url, api_key="no key", max_retries=0, **settings
        )
        return model

    def received(self, target: Any) -> list[list[Any]]:
        models = [each for each in walk(target, PACKAGES) if isinstance(each, Noting)]
        return models[0]._received


class AgentApps(CrewApps):
    """An agent, whose app keeps the messages of each conversation."""

    adapter: ClassVar[Adapter[Any, Any]] = ADAPTER
    team_script: ClassVar[Sequence[str | Answer]] = [
        tool_calls(
            [
                (
                    "ask_question_to_coworker",
                    {"question": "What is a lane?", "context": "", "coworker": "expert"},
                )
            ]
        ),
        text("A lane is a line of conversation."),
        text("The expert says: a line."),
    ]
    team_agents = ("helper", "expert", "helper")
    talks: ClassVar[dict[tuple[int, str], Talk]] = {}
    """By target and session."""

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        return self._fresh(self._agent(wire, "helper", tools=[tool(each) for each in tools]))

    def make_team(self, wire: Wire) -> Any:
        helper = self._agent(wire, "helper", allow_delegation=True)
        expert = self._agent(wire, "expert")
        task = Task(description="{question}", expected_output="An answer", agent=helper)
        return Crew(agents=[helper, expert], tasks=[task])

    def _agent(self, wire: Wire, role: str, **settings: Any) -> Agent:
        return Agent(
            role=role,
            goal="Answer.",
            backstory="You know words.",
            llm=self.model(wire),
            max_iter=100,
            **settings,
        )

    def _fresh(self, target: Any) -> Any:
        for key in [key for key in self.talks if key[0] == id(target)]:
            del self.talks[key]
        return target

    def ask(self, target: Any, text: str, session_id: str) -> str:
        with in_session(session_id):
            if isinstance(target, Crew):
                return str(target.kickoff(inputs={"question": text}))
            with self._in_talk(target, text, session_id) as talk:
                return talk.hear(target.kickoff(text))

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        with in_session(session_id):
            if isinstance(target, Crew):
                return str(await target.akickoff(inputs={"question": text}))
            with self._in_talk(target, text, session_id) as talk:
                return talk.hear(await target.kickoff_async(text))

    @contextmanager
    def _in_talk(self, target: Any, text: str, session_id: str) -> Iterator[Talk]:
        talk = self.talks.setdefault((id(target), session_id), Talk())
        talk.messages.append({"role": "user", "content": text})
        token = set_provider(talk)
        try:
            yield talk
        finally:
            reset_provider(token)
