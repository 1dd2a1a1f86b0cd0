"""Apps of Semantic Kernel for the contract suite: an agent with plugins and threads, and a kernel with a history."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from semantic_kernel import Kernel
from semantic_kernel.agents import (
    ChatCompletionAgent,
    ChatHistoryAgentThread,
    GroupChatOrchestration,
    RoundRobinGroupChatManager,
    SequentialOrchestration,
)
from semantic_kernel.agents.orchestration.orchestration_base import OrchestrationBase
from semantic_kernel.agents.runtime import InProcessRuntime
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import (
    OpenAIChatCompletion,
    OpenAIChatPromptExecutionSettings,
)
from semantic_kernel.contents import (
    AuthorRole,
    ChatHistory,
    ChatHistorySummarizationReducer,
    ChatMessageContent,
    ImageContent,
    TextContent,
)
from semantic_kernel.functions import KernelPlugin, kernel_function

from ce_integrations.calls.evidence_tool import fetch_evidence
from ce_integrations.install.adapter import Adapter
from ce_integrations.semantic_kernel import fetch_evidence_tool
from ce_integrations.semantic_kernel.installer import ADAPTER, SemanticKernelAdapter
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
from tests.adapters.semantic_kernel.contract_surfaces import SURFACES
from tests.adapters.semantic_kernel.shelves import shelf


ROUNDS = 50
"""Times that a function may be called for one question."""


class Service(OpenAIChatCompletion):
    """A service at a wire that notes the messages that reach the framework's own code."""

    _received: list[list[ChatMessageContent]]

    def __init__(self, wire: Wire, **told: Any) -> None:
        client = AsyncOpenAI(
            base_url=wire.base_url,
            api_key="no key",
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(verify=no_certificates()),
        )
        super().__init__(ai_model_id=MODEL, async_client=client, **told)
        self._received = []

    async def _inner_get_chat_message_contents(self, chat_history: Any, settings: Any) -> Any:
        self._received.append(list(chat_history.messages))
        return await super()._inner_get_chat_message_contents(chat_history, settings)

    async def _inner_get_streaming_chat_message_contents(
        self, chat_history: Any, settings: Any, function_invoke_attempt: int = 0
    ) -> Any:
        self._received.append(list(chat_history.messages))
        async for chunk in super()._inner_get_streaming_chat_message_contents(
            chat_history, settings, function_invoke_attempt
        ):
            yield chunk


def plugin(tools: Sequence[Tool]) -> KernelPlugin:
    """Plain functions as a plugin; the model calls them by their own names."""
    functions = {tool.__name__: kernel_function(tool, name=tool.__name__) for tool in tools}
    return KernelPlugin.from_object("tools", functions)


def behaviour() -> FunctionChoiceBehavior:
    made = FunctionChoiceBehavior.Auto()
    made.maximum_auto_invoke_attempts = ROUNDS
    return made


_ADD_TO_ITS_OWN = ChatHistory().add_user_message, ChatHistory().add_assistant_message
"""Looked up once on what has no hash: Python 3.13.0 and 3.13.1 then keep none of these methods for equal histories.

To Semantic Kernel all reducers with the same settings are equal: the second would add to the first one (gh-127750).
"""

SUM_UP = (
    "Sum up the dialog. 请总结。" + "Leave out no name, no number and no open question of it. " * 19
)


class KernelApps(FrameworkApps):
    """What all apps of Semantic Kernel in the suite share."""

    packages = ADAPTER.packages
    are_alike = has_status = True

    @cached_property
    def services(self) -> list[Service]:
        return []

    @cached_property
    def talks(self) -> dict[tuple[int, str], tuple[Any, Any]]:
        return {}

    def service(self, wire: Wire) -> Service:
        self.services.append(Service(wire))
        return self.services[-1]

    async def aclose(self) -> None:
        for service in self.services:
            await service.client.close()

    def annotated(self, native: Any) -> Any:
        return native.model_copy(update={"name": "ann", "metadata": {"mine": 1}})

    def received(self, target: Any) -> list[list[Any]]:
        return next(
            each for each in walk(target, ADAPTER.packages) if isinstance(each, Service)
        )._received

    def talk_of(self, target: Any, session_id: str, make: Callable[[], Any]) -> Any:
        """The thread or history of a talk: an app keeps one for each."""
        key = (id(target), session_id)
        if key not in self.talks:
            self.talks[key] = target, make()
        return self.talks[key][1]


class AgentApps(KernelApps):
    """An agent with functions and threads, agents of agents, groups, and a prompt that looks pages up."""

    adapter: ClassVar[Adapter[Any, Any]] = ADAPTER
    team_script: ClassVar[Sequence[str | Answer]] = [
        tool_calls([("expert-expert", {"messages": "What is a lane?"})]),
        text("A lane is a line of conversation."),
        text("The expert says: a line."),
    ]
    team_agents: ClassVar[Sequence[str]] = ("boss", "expert", "boss")
    group_script = (None, None)
    group_agents = ("writer", "critic")
    surfaces: ClassVar[Mapping[str, Surface]] = SURFACES

    @cached_property
    def runtimes(self) -> list[InProcessRuntime]:
        return []

    def agent(self, name: str, wire: Wire, plugins: Sequence[Any] = ()) -> ChatCompletionAgent:
        return ChatCompletionAgent(
            name=name,
            description=name,
            service=self.service(wire),
            instructions=SYSTEM,
            plugins=list(plugins),
            function_choice_behavior=behaviour(),
        )

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        own = [each for each in tools if each is not fetch_evidence]
        fetches = [fetch_evidence_tool()] if fetch_evidence in tools else []
        return self.agent("helper", wire, [plugin(own), *fetches] if tools else ())

    def make_team(self, wire: Wire) -> Any:
        return self.agent("boss", wire, [self.agent("expert", wire)])

    def make_group(self, wire: Wire) -> Any:
        """A group chat in which all hear all; what they said is handed on to its next run."""
        agents: list[Any] = [self.agent(name, wire) for name in self.group_agents]
        manager = RoundRobinGroupChatManager(max_rounds=len(agents))
        return GroupChatOrchestration(members=agents, manager=manager)

    def make_helped(self, wire: Wire) -> Any:
        """A service whose history sums up what is older than its newest message."""
        return self.service(wire)

    def aside(self, body: JsonObject) -> str | None:
        asked = str(body["messages"][-1]["content"])
        return "They spoke of lanes." if asked.startswith(SUM_UP[:20]) else None

    def make_retrieving(self, wire: Wire, pages: Sequence[Page]) -> Any:
        """A kernel whose prompt looks the question up."""
        kernel = Kernel(services=[self.service(wire)])
        looked = shelf(pages).create_search_function(
            "look", top=len(pages), string_mapper=lambda hit: hit.record["text"]
        )
        kernel.add_function("shelf", looked)
        return kernel

    def make_elsewhere(self, wire: Wire) -> Any:
        """An orchestration in a runtime that runs already."""
        runtime = InProcessRuntime()
        self.runtimes.append(runtime)
        runtime.start()
        made = SequentialOrchestration(members=[self.agent("helper", wire)])
        vars(made)["runtime"] = runtime
        return made

    async def aclose(self) -> None:
        for runtime in self.runtimes:
            await runtime.stop()
        await super().aclose()

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        if isinstance(target, ChatCompletionAgent):
            answer = await target.get_response(text, thread=self._thread(target, session_id))
            return str(answer.message.content)
        with in_session(session_id):
            return [said async for said in self._others(target, text, session_id)][-1]

    async def astream(self, target: Any, text: str, session_id: str) -> AsyncIterator[str]:
        if isinstance(target, ChatCompletionAgent):
            thread = self._thread(target, session_id)
            async for piece in target.invoke_stream(text, thread=thread):
                yield piece.message.content
            return
        with in_session(session_id):
            async for said in self._others(target, text, session_id, streams=True):
                yield said

    def _thread(self, target: Any, session_id: str) -> ChatHistoryAgentThread:
        def make() -> ChatHistoryAgentThread:
            return ChatHistoryAgentThread(thread_id=session_id or None)

        thread: ChatHistoryAgentThread = self.talk_of(target, session_id, make)
        return thread

    def _others(
        self, target: Any, text: str, session_id: str, *, streams: bool = False
    ) -> AsyncIterator[str]:
        if isinstance(target, Kernel):
            return _prompted(target, text, streams=streams)
        if isinstance(target, OrchestrationBase):
            return _orchestrated(target, self.talk_of(target, session_id, list), text)

        def make() -> ChatHistorySummarizationReducer:
            return ChatHistorySummarizationReducer(
                service=target, target_count=1, summarization_instructions=SUM_UP
            )

        return _reduced(self.talk_of(target, session_id, make), text, streams=streams)

    async def show(self, target: Any, text: str, png: bytes, session_id: str) -> str:
        picture = ImageContent(data_uri=f"data:image/png;base64,{b64encode(png).decode()}")
        said = ChatMessageContent(role=AuthorRole.USER, items=[TextContent(text=text), picture])
        answer = await target.get_response(said, thread=self._thread(target, session_id))
        return str(answer.message.content)


PROMPT = (
    '<message role="system">Pages: {{shelf.look $question}}</message>'
    '<message role="user">{{$question}}</message>'
)


async def _prompted(kernel: Kernel, text: str, *, streams: bool) -> AsyncIterator[str]:
    if not streams:
        yield str(await kernel.invoke_prompt(PROMPT, question=text))
        return
    async for pieces in kernel.invoke_prompt_stream(PROMPT, question=text):
        yield "".join(map(str, pieces))


async def _orchestrated(
    target: Any, talk: list[ChatMessageContent], text: str
) -> AsyncIterator[str]:
    talk.append(ChatMessageContent(role=AuthorRole.USER, content=text))
    given = list(talk)
    target._agent_response_callback = talk.append
    if isinstance(target, GroupChatOrchestration):
        target._manager.current_round = 0  # which it keeps from run to run
    runtime = vars(target).get("runtime") or InProcessRuntime()
    is_own = runtime is not vars(target).get("runtime")
    if is_own:
        runtime.start()
    try:
        result = await target.invoke(task=given, runtime=runtime)
        yield (await result.get()).content
    finally:
        if is_own:
            await runtime.stop()


async def _reduced(
    history: ChatHistorySummarizationReducer, text: str, *, streams: bool
) -> AsyncIterator[str]:
    history.add_user_message(text)
    async for said in answered(history.service, history, None, streams=streams):
        yield said
    await history.reduce()


async def answered(
    service: Any, history: ChatHistory, kernel: Kernel | None, *, streams: bool
) -> AsyncIterator[str]:
    """Ask a service itself, and keep what it answers."""
    choice = None if kernel is None else behaviour()
    settings = OpenAIChatPromptExecutionSettings(function_choice_behavior=choice)
    said = ""
    if streams:
        async for piece in service.get_streaming_chat_message_content(
            history, settings, kernel=kernel
        ):
            if piece is not None and piece.role is AuthorRole.ASSISTANT:
                said += piece.content
                yield piece.content
    else:
        said = (await service.get_chat_message_content(history, settings, kernel=kernel)).content
        yield said
    history.add_assistant_message(said)


class NoTools(SemanticKernelAdapter):
    """An agent that calls no functions and asks no other agent."""

    capabilities = replace(
        SemanticKernelAdapter.capabilities, tools=False, teams=False, groups=False
    )


class PlainApps(AgentApps):
    """An agent without functions."""

    adapter: ClassVar[Adapter[Any, Any]] = NoTools()
    make_team = FrameworkApps.make_team
    make_group = FrameworkApps.make_group


class ServiceOnly(SemanticKernelAdapter):
    """A kernel whose service is asked with a history that the app keeps."""

    capabilities = replace(
        SemanticKernelAdapter.capabilities,
        teams=False,
        groups=False,
        helpers=False,
        retrieval=False,
        history=False,
        elsewhere=False,
    )


class ServiceApps(KernelApps):
    """A kernel, its service and a history for each session."""

    adapter: ClassVar[Adapter[Any, Any]] = ServiceOnly()

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        plugins = [plugin(tools)] if tools else []
        return Kernel(services=[self.service(wire)], plugins=plugins)

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        return "".join([said async for said in self._said(target, text, session_id)])

    async def astream(self, target: Any, text: str, session_id: str) -> AsyncIterator[str]:
        async for said in self._said(target, text, session_id, streams=True):
            yield said

    async def _said(
        self, target: Kernel, text: str, session_id: str, *, streams: bool = False
    ) -> AsyncIterator[str]:
        history = self.talk_of(target, session_id, lambda: ChatHistory(system_message=SYSTEM))
        history.add_user_message(text)
        (service,) = target.services.values()
        with in_session(session_id):
            async for said in answered(service, history, target, streams=streams):
                yield said
