"""Apps of LlamaIndex for the contract suite: an agent with a memory for each talk, and a chat engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from typing import Any, ClassVar

from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.llms.openai import OpenAI
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient
from pydantic import PrivateAttr

from ce_integrations.calls.evidence_tool import fetch_evidence
from ce_integrations.install.adapter import Adapter
from ce_integrations.llamaindex import fetch_evidence_tool
from ce_integrations.llamaindex.installer import LlamaIndexAdapter
from ce_integrations.llamaindex.marked_parts import PACKAGES
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
from tests.adapters.llamaindex.contract_surfaces import SURFACES
from tests.adapters.llamaindex.releases import make_agent


def _made(each: Tool) -> Any:
    return fetch_evidence_tool() if each is fetch_evidence else _awaited(each)


class Noting(OpenAI):
    """Notes the messages that reach a provider's own code."""

    _received: list[list[ChatMessage]] = PrivateAttr(default_factory=list)

    def _chat(self, messages: Any, **kwargs: Any) -> Any:
        self._received.append(messages)
        return super()._chat(messages, **kwargs)

    async def _achat(self, messages: Any, **kwargs: Any) -> Any:
        self._received.append(messages)
        return await super()._achat(messages, **kwargs)

    def _stream_chat(self, messages: Any, **kwargs: Any) -> Any:
        self._received.append(messages)
        return super()._stream_chat(messages, **kwargs)

    async def _astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        self._received.append(messages)
        return await super()._astream_chat(messages, **kwargs)


class LlamaIndexApps(FrameworkApps):
    packages = PACKAGES
    are_alike = has_status = True

    @cached_property
    def clients(self) -> tuple[DefaultHttpxClient, DefaultAsyncHttpxClient]:
        return (
            DefaultHttpxClient(verify=no_certificates()),
            DefaultAsyncHttpxClient(verify=no_certificates()),
        )

    def model(self, wire: Wire) -> Noting:
        clients: dict[str, Any] = {
            "http_client": self.clients[0],
            "async_http_client": self.clients[1],
        }
        return Noting(
            model=MODEL, api_base=wire.base_url, api_key="no key", max_retries=0, **clients
        )

    async def aclose(self) -> None:
        client, async_client = self.clients
        client.close()
        await async_client.aclose()

    def annotated(self, native: Any) -> Any:
        return native.model_copy(
            update={"additional_kwargs": {**native.additional_kwargs, "key": 1}}
        )

    def received(self, target: Any) -> list[list[Any]]:
        model = next(each for each in walk(target, PACKAGES) if isinstance(each, Noting))
        return model._received


class Agents(LlamaIndexAdapter):
    """Agents can be awaited only; those of these tests look nothing up and ask for nothing on the side."""

    capabilities = replace(
        LlamaIndexAdapter.capabilities, ways=("async", "astream"), helpers=False, retrieval=False
    )


class AgentApps(LlamaIndexApps):
    """An agent, and a memory for each conversation."""

    adapter: ClassVar[Adapter[Any, Any]] = Agents()
    team_script: ClassVar[Sequence[str | Answer]] = [
        tool_calls([("ask_expert", {"question": "What is a lane?"})]),
        text("A lane is a line of conversation."),
        text("The expert says: a line."),
    ]
    team_agents = ("helper", "expert", "helper")
    group_script = (tool_calls([("handoff", {"to_agent": "critic", "reason": "so"})]), None)
    group_agents = ("writer", "critic")
    memories: ClassVar[dict[tuple[int, str], Any]] = {}
    """By target and session."""

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        return self._fresh(make_agent(self.model(wire), [*map(_made, tools)], SYSTEM))

    def make_team(self, wire: Wire) -> Any:
        prompt = "You are an expert."
        expert = FunctionAgent(name="expert", llm=self.model(wire), system_prompt=prompt)

        async def ask_expert(question: str) -> str:
            """Ask an expert."""
            return str(await expert.run(question))

        return self._fresh(make_agent(self.model(wire), [ask_expert], SYSTEM, name="helper"))

    def make_group(self, wire: Wire) -> Any:
        agents: list[Any] = [
            FunctionAgent(
                name=name,
                description=f"A {name}.",
                llm=self.model(wire),
                system_prompt=f"You are the {name}.",
            )
            for name in self.group_agents
        ]
        return self._fresh(AgentWorkflow(agents=agents, root_agent=self.group_agents[0]))

    def _fresh(self, target: Any) -> Any:
        for key in [key for key in self.memories if key[0] == id(target)]:
            del self.memories[key]
        return target

    def _memory(self, target: Any, session_id: str) -> Any:
        made = ChatMemoryBuffer.from_defaults(token_limit=1_000_000, chat_store_key=session_id)
        return self.memories.setdefault((id(target), session_id), made)

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        memory = self._memory(target, session_id)
        handler = target.run(text, memory=memory, max_iterations=100)
        try:
            return str(await asyncio.shield(handler))
        except BaseException:
            await _end(handler)
            raise

    async def show(self, target: Any, text: str, png: bytes, session_id: str) -> str:
        said = ChatMessage(role="user", blocks=[TextBlock(text=text), ImageBlock(image=png)])
        memory = self._memory(target, session_id)
        return str(await target.run(said, memory=memory, max_iterations=100))

    async def astream(self, target: Any, text: str, session_id: str) -> AsyncIterator[str]:
        memory = self._memory(target, session_id)
        handler = target.run(text, memory=memory, max_iterations=100)
        try:
            async for event in handler.stream_events():
                if isinstance(event, AgentStream) and event.delta:
                    yield event.delta
            await handler
        except BaseException:
            await _end(handler)
            raise


def _awaited(tool: Tool) -> Any:
    """The framework keeps results as they come, and other tools have threads that race."""

    @wraps(tool)
    async def run(*args: Any, **kwargs: Any) -> str:
        return tool(*args, **kwargs)

    return run


async def _end(handler: Any) -> None:
    """The steps of a run go on where nobody waits for them; an app that wants them to end says so."""
    if not handler.is_done():
        await handler.cancel_run()


class ChatOnly(LlamaIndexAdapter):
    """A chat engine runs no tools, asks no other agent, and has one memory."""

    capabilities = replace(
        LlamaIndexAdapter.capabilities, tools=False, teams=False, groups=False, threads=False
    )


class Shelf(BaseRetriever):
    """Gives all of its pages."""

    def __init__(self, pages: Sequence[Page]) -> None:
        super().__init__()
        self.pages = pages

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(
                    text=page.text,
                    metadata={"file_path": page.uri},
                    excluded_llm_metadata_keys=["file_path"],
                ),
                score=page.score,
            )
            for page in self.pages
        ]


class ChatApps(LlamaIndexApps):
    """A chat engine, whose memory has no id of its own."""

    adapter: ClassVar[Adapter[Any, Any]] = ChatOnly()
    surfaces: ClassVar[Mapping[str, Surface]] = SURFACES

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        assert not tools
        return SimpleChatEngine.from_defaults(system_prompt=SYSTEM, **self._told(wire))

    def make_helped(self, wire: Wire) -> Any:
        """A question that follows another is first made to stand alone."""
        found = Shelf([Page("A lane is a line.", "lane.md", 0.5)])
        return CondensePlusContextChatEngine.from_defaults(found, **self._told(wire))

    def aside(self, body: JsonObject) -> str | None:
        return "What is a cut?" if "standalone question" in str(body) else None

    def make_retrieving(self, wire: Wire, pages: Sequence[Page]) -> Any:
        told = self._told(wire)
        return ContextChatEngine.from_defaults(Shelf(pages), system_prompt=SYSTEM, **told)

    def _told(self, wire: Wire) -> dict[str, Any]:
        memory = ChatMemoryBuffer.from_defaults(token_limit=1_000_000)
        return {"llm": self.model(wire), "memory": memory}

    def ask(self, target: Any, text: str, session_id: str) -> str:
        with in_session(session_id):
            return str(target.chat(text))

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        with in_session(session_id):
            return str(await target.achat(text))

    def stream(self, target: Any, text: str, session_id: str) -> Iterator[str]:
        with in_session(session_id):
            answer = target.stream_chat(text)
        yield from answer.response_gen

    async def astream(self, target: Any, text: str, session_id: str) -> AsyncIterator[str]:
        with in_session(session_id):
            answer = await target.astream_chat(text)
        async for piece in answer.async_response_gen():
            yield piece
