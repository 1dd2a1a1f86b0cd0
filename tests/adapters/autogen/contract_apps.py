"""Apps of AutoGen for the contract suite: an agent with tools and a team of two, and a core agent."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, MultiModalMessage
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat
from autogen_agentchat.tools import AgentTool
from autogen_core import (
    AgentId,
    CancellationToken,
    Image,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    message_handler,
)
from autogen_core.memory import ListMemory, MemoryContent
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from openai import DefaultAsyncHttpxClient

from ce_integrations.autogen import fetch_evidence_tool
from ce_integrations.autogen.installer import ADAPTER, AutoGenAdapter
from ce_integrations.calls.evidence_tool import fetch_evidence
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
from tests.adapters.autogen.contract_surfaces import SURFACES
from tests.adapters.clients import no_certificates


INFO: Any = {
    "vision": True,
    "function_calling": True,
    "json_output": True,
    "structured_output": True,
    "family": "gpt-4",
}


class Client(OpenAIChatCompletionClient):
    """A client of a wire that notes the messages that reach the framework's own code."""

    def __init__(self, wire: Wire, **info: Any) -> None:
        told: dict[str, Any] = {  # some of it is taken, and not declared
            "http_client": DefaultAsyncHttpxClient(verify=no_certificates()),
            "model_info": {**INFO, **info},
        }
        super().__init__(
            model=MODEL, base_url=wire.base_url, api_key="no key", max_retries=0, **told
        )
        self.received: list[list[LLMMessage]] = []

    async def create(self, messages: Any, **options: Any) -> Any:
        self.received.append(messages)
        return await super().create(messages, **options)

    async def create_stream(self, messages: Any, **options: Any) -> Any:
        self.received.append(messages)
        async for chunk in super().create_stream(messages, **options):
            yield chunk


def picture(png: bytes) -> Image:
    return Image.from_base64(b64encode(png).decode())


class AutoGenApps(FrameworkApps):
    packages = ADAPTER.packages
    are_alike = has_status = True

    def client(self, wire: Wire) -> Client:
        made = Client(wire)
        vars(self).setdefault("clients", []).append(made)
        return made

    async def aclose(self) -> None:
        for runtime in vars(self).get("runtimes", ()):
            await runtime.stop()
        for client in vars(self).get("clients", ()):
            await client.close()

    def annotated(self, native: Any) -> Any:
        return native.model_copy(update={"source": "ann"} if hasattr(native, "source") else {})

    def received(self, target: Any) -> list[list[Any]]:
        client = next(each for each in walk(target, ADAPTER.packages) if isinstance(each, Client))
        return client.received


class AgentApps(AutoGenApps):
    """An agent with tools, which keeps one conversation, and one that asks another as a tool."""

    adapter: ClassVar[Adapter[Any, Any]] = ADAPTER
    team_script: ClassVar[Sequence[str | Answer]] = [
        tool_calls([("expert", {"task": "What is a lane?"})]),
        text("A lane is a line of conversation."),
        text("The expert says: a line."),
    ]
    team_agents: ClassVar[Sequence[str]] = ("boss", "expert", "boss")
    group_script = (None, None)
    group_agents = ("writer", "critic")
    surfaces: ClassVar[Mapping[str, Surface]] = SURFACES

    def agent(self, name: str, wire: Wire, tools: Sequence[Any], system: str) -> AssistantAgent:
        return AssistantAgent(
            name,
            self.client(wire),
            tools=list(tools),
            description=name,
            system_message=system,
            max_tool_iterations=50,
        )

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        made = [fetch_evidence_tool() if each is fetch_evidence else each for each in tools]
        return self.agent("helper", wire, made, SYSTEM)

    def make_team(self, wire: Wire) -> Any:
        expert = self.agent("expert", wire, (), "You are an expert.")
        return self.agent("boss", wire, [AgentTool(expert)], SYSTEM)

    def make_group(self, wire: Wire) -> Any:
        return RoundRobinGroupChat(self._agents(wire), max_turns=len(self.group_agents))

    def make_helped(self, wire: Wire) -> Any:
        """A selector asks who is to speak next."""
        agents, client = self._agents(wire), self.client(wire)
        return SelectorGroupChat(agents, client, max_turns=1, allow_repeated_speaker=True)

    def _agents(self, wire: Wire) -> list[Any]:
        return [self.agent(name, wire, (), SYSTEM) for name in self.group_agents]

    def aside(self, body: JsonObject) -> str | None:
        return "critic" if "Read the above" in str(body["messages"][0]["content"]) else None

    def make_retrieving(self, wire: Wire, pages: Sequence[Page]) -> Any:
        found = [
            MemoryContent(
                content=page.text,
                mime_type="text/plain",
                metadata={"source": page.uri, "score": page.score},
            )
            for page in pages
        ]
        made = Client(wire, multiple_system_messages=True)
        vars(self).setdefault("clients", []).append(made)
        return AssistantAgent("helper", made, memory=[ListMemory("shelf", found)])

    def make_elsewhere(self, wire: Wire) -> Any:
        runtime = SingleThreadedAgentRuntime()
        vars(self).setdefault("runtimes", []).append(runtime)
        runtime.start()
        agent = self.agent("helper", wire, (), SYSTEM)
        return RoundRobinGroupChat([agent], max_turns=1, runtime=runtime)

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        _stream(target, False)
        with in_session(session_id):
            result = await target.run(task=text)
        return str(result.messages[-1].content)

    async def show(self, target: Any, text: str, png: bytes, session_id: str) -> str:
        _stream(target, False)
        said = MultiModalMessage(content=[text, picture(png)], source="user")
        with in_session(session_id):
            result = await target.run(task=said)
        return str(result.messages[-1].content)

    async def astream(self, target: Any, text: str, session_id: str) -> AsyncIterator[str]:
        _stream(target, True)
        with in_session(session_id):
            async for event in target.run_stream(task=text):
                if isinstance(event, ModelClientStreamingChunkEvent):
                    yield event.content


def _stream(target: Any, whether: bool) -> None:
    for each in walk(target, ADAPTER.packages):
        if isinstance(each, AssistantAgent):
            each._model_client_stream = whether


class NoTools(AutoGenAdapter):
    """An agent that runs no tools and asks no other agent."""

    capabilities = replace(AutoGenAdapter.capabilities, tools=False, teams=False, groups=False)


class PlainApps(AgentApps):
    """An agent without tools."""

    adapter: ClassVar[Adapter[Any, Any]] = NoTools()
    make_team = FrameworkApps.make_team
    make_group = FrameworkApps.make_group


@dataclass
class Ask:
    text: str


class Core(RoutedAgent):
    """A core agent that keeps its messages and asks its client itself."""

    def __init__(self, client: Client) -> None:
        super().__init__("answers")
        self.client = client
        self.said: list[LLMMessage] = [SystemMessage(content=SYSTEM)]

    @message_handler
    async def ask(self, message: Ask, context: MessageContext) -> str:
        self.said.append(UserMessage(content=message.text, source="user"))
        result = await self.client.create(
            list(self.said), cancellation_token=context.cancellation_token
        )
        self.said.append(AssistantMessage(content=str(result.content), source="core"))
        return str(result.content)


class CoreOnly(NoTools):
    """A core agent that asks for whole answers."""

    capabilities = replace(
        NoTools.capabilities, ways=("async",), helpers=False, retrieval=False, elsewhere=False
    )


class CoreApps(AutoGenApps):
    """A runtime with one kind of agent; the key of an agent's id is its session."""

    adapter: ClassVar[Adapter[Any, Any]] = CoreOnly()

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        assert not tools
        return Running(self.client(wire))

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        return str(await target.ask(text, session_id or "default"))

    def received(self, target: Any) -> list[list[Any]]:
        return list(target.client.received)


class Running(SingleThreadedAgentRuntime):
    """A runtime that runs while it is asked."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        self.asked = 0

    async def ask(self, text: str, key: str) -> str:
        if "core" not in self._known_agent_names:
            await Core.register(self, "core", lambda: Core(self.client))
        if not self.asked:
            self.start()
        self.asked += 1
        token = CancellationToken()
        try:
            answer = self.send_message(Ask(text), AgentId("core", key), cancellation_token=token)
            return str(await answer)
        except asyncio.CancelledError:
            token.cancel()  # a runtime's handlers go on otherwise
            raise
        finally:
            self.asked -= 1
            if not self.asked:
                await self.stop()
