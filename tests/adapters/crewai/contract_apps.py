"""Apps of CrewAI for the contract suite: an agent that is spoken with, a crew that delegates, a model alone."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from crewai import Agent, Crew, Flow, Task
from crewai.core.providers.human_input import SyncHumanInputProvider, reset_provider, set_provider
from crewai.flow.flow import start
from crewai.knowledge.knowledge import Knowledge
from crewai.knowledge.storage.knowledge_storage import KnowledgeStorage
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.tools import tool
from crewai.utilities.converter import Converter
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI
from pydantic import BaseModel, PrivateAttr

from ce_integrations.calls.evidence_tool import fetch_evidence
from ce_integrations.crewai import fetch_evidence_tool
from ce_integrations.crewai.installer import CrewAIAdapter
from ce_integrations.install.adapter import Adapter
from ce_integrations.testing.answers import Answer, JsonObject, text, tool_calls
from ce_integrations.testing.framework_apps import (
    MODEL,
    SYSTEM,
    FrameworkApps,
    Page,
    Surface,
    Tool,
    in_session,
)
from ce_integrations.testing.wire import Wire
from ce_integrations.wrapping.walk import walk
from tests.adapters.clients import no_certificates
from tests.adapters.crewai.contract_surfaces import SURFACES


PACKAGES = ("crewai",)


def _made(each: Tool) -> Any:
    return fetch_evidence_tool() if each is fetch_evidence else tool(each)


class Noting(OpenAICompletion):
    """Notes the messages that reach a provider's own code."""

    _received: list[list[Any]] = PrivateAttr(default_factory=list)

    def supports_multimodal(self) -> bool:
        return True

    def _format_messages(self, messages: Any, **kwargs: Any) -> Any:
        self._received.append(list(messages))
        return super()._format_messages(messages, **kwargs)

    def _build_sync_client(self) -> OpenAI:
        return OpenAI(**self._get_client_params(), http_client=_client())

    def _build_async_client(self) -> AsyncOpenAI:
        client = DefaultAsyncHttpxClient(verify=no_certificates())
        return AsyncOpenAI(**self._get_client_params(), http_client=client)


@cache
def _client() -> DefaultHttpxClient:
    return DefaultHttpxClient(verify=no_certificates())


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
    are_alike = has_status = True

    def model(self, wire: Wire, **settings: Any) -> Noting:
        told: dict[str, Any] = {"base_url": wire.base_url, "api_key": "no key", "max_retries": 0}
        told["timeout"] = 60  # a busy machine is no fault
        self.newest = Noting(model=MODEL, **told, **settings)
        return self.newest

    def annotated(self, native: Any) -> Any:
        return {"name": "somebody", **native, "cache_breakpoint": True}

    def received(self, target: Any) -> list[list[Any]]:
        models = [each for each in walk(target, PACKAGES) if isinstance(each, Noting)]
        return models[0]._received


class Agents(CrewAIAdapter):
    """Agents of these tests look nothing up and ask for nothing on the side."""

    capabilities = replace(CrewAIAdapter.capabilities, helpers=False, retrieval=False)


class AgentApps(CrewApps):
    """An agent, whose app keeps the messages of each conversation."""

    adapter: ClassVar[Adapter[Any, Any]] = Agents()
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
        return self._fresh(self._agent(wire, "helper", tools=[*map(_made, tools)]))

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

    async def show(self, target: Any, text: str, png: bytes, session_id: str) -> str:
        from crewai_files import ImageFile

        files: Any = {"picture": ImageFile(source=png)}
        with in_session(session_id), self._in_talk(target, text, session_id) as talk:
            return talk.hear(await target.kickoff_async(text, input_files=files))

    @contextmanager
    def _in_talk(self, target: Any, text: str, session_id: str) -> Iterator[Talk]:
        talk = self.talks.setdefault((id(target), session_id), Talk())
        talk.messages.append({"role": "user", "content": text})
        token = set_provider(talk)
        try:
            yield talk
        finally:
            reset_provider(token)


class ModelsAlone(CrewAIAdapter):
    """A model runs no tools, asks no agent and keeps no talk; who awaits it may cancel it."""

    capabilities = replace(
        CrewAIAdapter.capabilities, tools=False, teams=False, history=False, cancels=True
    )


class Summary(BaseModel):
    """What a talk was about."""

    topics: list[str]


class Shelf(KnowledgeStorage):
    """Gives all of its pages."""

    _pages: Sequence[Page] = PrivateAttr(default=())

    def search(self, *_: Any, **__: Any) -> Any:
        return [
            {
                "id": page.uri,
                "content": page.text,
                "metadata": {"source": page.uri},
                "score": page.score,
            }
            for page in self._pages
        ]


class PlainApps(CrewApps):
    """A model, and a flow whose step asks it; the app keeps the messages."""

    adapter: ClassVar[Adapter[Any, Any]] = ModelsAlone()
    surfaces: ClassVar[Mapping[str, Surface]] = SURFACES
    talks: ClassVar[dict[tuple[int, str], list[Any]]] = {}
    """By target and session."""

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        assert not tools
        return self._fresh(self.model(wire))

    def make_helped(self, wire: Wire) -> Any:
        """After each answer the talk is made an object of, by the framework's own prompt."""
        model, talk = self.model(wire), self._begun()

        def answer(question: str) -> str:
            said = self._asks(model, talk, question)
            words = "\n".join(message["content"] for message in talk[1:])
            told: dict[str, Any] = {"llm": model, "model": Summary, "max_attempts": 1}
            Converter(text=words, instructions="List the topics.", **told).to_pydantic()
            return said

        return self._flow(answer)

    def aside(self, body: JsonObject) -> str | None:
        return '{"topics": ["lanes"]}' if "List the topics." in str(body) else None

    def make_retrieving(self, wire: Wire, pages: Sequence[Page]) -> Any:
        model, talk = self.model(wire), self._begun()
        shelf = Shelf()
        shelf._pages = pages
        knowledge = Knowledge("pages", [], storage=shelf)

        def answer(question: str) -> str:
            hits: Any = knowledge.query([question])
            found = "\n\n".join(hit["content"] for hit in hits)
            talk[0] = {"role": "system", "content": f"{SYSTEM}\n\n{found}"}
            return self._asks(model, talk, question)

        return self._flow(answer)

    def _flow(self, answer: Any) -> Any:
        class Asking(Flow[dict[str, Any]]):
            @start()
            def begin(self) -> str:
                return str(answer(self.state["question"]))

        return Asking(suppress_flow_events=True)

    def _asks(self, model: Any, talk: list[Any], text: str) -> str:
        said = str(model.call([*talk, {"role": "user", "content": text}]))
        talk += [
            {"role": "user", "content": text},
            {"role": "assistant", "content": said},
        ]
        return said

    def _begun(self) -> list[Any]:
        return [{"role": "system", "content": SYSTEM}]

    def _fresh(self, target: Any) -> Any:
        for key in [key for key in self.talks if key[0] == id(target)]:
            del self.talks[key]
        return target

    def received(self, target: Any) -> list[list[Any]]:
        model = target if isinstance(target, Noting) else self.newest
        return list(model._received)

    def ask(self, target: Any, text: str, session_id: str) -> str:
        with in_session(session_id):
            if isinstance(target, Flow):
                return str(target.kickoff(inputs={"question": text}))
            talk = self.talks.setdefault((id(target), session_id), self._begun())
            talk.append({"role": "user", "content": text})
            talk.append({"role": "assistant", "content": target.call(list(talk))})
            return str(talk[-1]["content"])

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        with in_session(session_id):
            if isinstance(target, Flow):
                return str(await target.kickoff_async(inputs={"question": text}))
            return await self._says(target, text, session_id)

    async def show(self, target: Any, text: str, png: bytes, session_id: str) -> str:
        url = f"data:image/png;base64,{b64encode(png).decode()}"
        picture = {"type": "image_url", "image_url": {"url": url}}
        with in_session(session_id):
            parts = [{"type": "text", "text": text}, picture]
            return await self._says(target, parts, session_id)

    async def _says(self, target: Any, content: Any, session_id: str) -> str:
        talk = self.talks.setdefault((id(target), session_id), self._begun())
        talk.append({"role": "user", "content": content})
        talk.append({"role": "assistant", "content": await target.acall(list(talk))})
        return str(talk[-1]["content"])
