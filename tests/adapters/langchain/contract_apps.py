"""Apps of LangChain for the contract suite: an agent with a checkpointer, and a chain that keeps its messages."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient
from pydantic import PrivateAttr

from ce_integrations.calls.evidence_tool import fetch_evidence
from ce_integrations.install.adapter import Adapter
from ce_integrations.langchain import fetch_evidence_tool
from ce_integrations.langchain.installer import PACKAGES, LangChainAdapter
from ce_integrations.testing.answers import Answer, JsonObject, text, tool_calls
from ce_integrations.testing.framework_apps import (
    MODEL,
    SYSTEM,
    FrameworkApps,
    Page,
    Surface,
    Tool,
)
from ce_integrations.testing.wire import Wire
from ce_integrations.wrapping.walk import walk
from tests.adapters.clients import no_certificates
from tests.adapters.langchain.contract_surfaces import SURFACES
from tests.adapters.langchain.releases import make_agent


class Noting(ChatOpenAI):
    """Notes the messages that reach a provider's own code."""

    _received: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self._received.append(messages)
        return super()._generate(messages, *args, **kwargs)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self._received.append(messages)
        return await super()._agenerate(messages, *args, **kwargs)

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self._received.append(messages)
        return super()._stream(messages, *args, **kwargs)

    def _astream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self._received.append(messages)
        return super()._astream(messages, *args, **kwargs)


def with_picture(text: str, png: bytes) -> Any:
    """The content of a message, as apps write it for OpenAI."""
    url = f"data:image/png;base64,{b64encode(png).decode()}"
    return [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]


class LangChainApps(FrameworkApps):
    packages = PACKAGES
    are_alike = has_status = True

    @cached_property
    def clients(self) -> tuple[DefaultHttpxClient, DefaultAsyncHttpxClient]:
        return (
            DefaultHttpxClient(verify=no_certificates()),
            DefaultAsyncHttpxClient(verify=no_certificates()),
        )

    def model(self, wire: Wire) -> Noting:
        return Noting(
            model=MODEL,
            base_url=wire.base_url,
            api_key="no key",  # type: ignore[arg-type]  # a plain key is taken
            max_retries=0,
            http_client=self.clients[0],
            http_async_client=self.clients[1],
        )

    async def aclose(self) -> None:
        client, async_client = self.clients
        client.close()
        await async_client.aclose()

    def annotated(self, native: Any) -> Any:
        extras = {"name": "ann", "additional_kwargs": {"key": 1}, "response_metadata": {"key": 2}}
        return native.model_copy(update={**extras, "id": "an-id"})

    def received(self, target: Any) -> list[list[Any]]:
        model = next(each for each in walk(target, PACKAGES) if isinstance(each, Noting))
        return model._received


class AgentsOnly(LangChainAdapter):
    """Agents of these tests look nothing up, and ask for nothing on the side; graphs keep their own state."""

    capabilities = replace(
        LangChainAdapter.capabilities, helpers=False, retrieval=False, history=False
    )


class AgentApps(LangChainApps):
    """An agent with a checkpointer."""

    adapter: ClassVar[Adapter[Any, Any]] = AgentsOnly()
    team_script: ClassVar[Sequence[str | Answer]] = [
        tool_calls([("ask_expert", {"question": "What is a lane?"})]),
        text("A lane is a line of conversation."),
        text("The expert says: a line."),
    ]
    team_agents = ("helper", "expert", "helper")
    group_script = (None, None)
    group_agents = ("writer", "critic")

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        return make_agent(
            self.model(wire),
            [fetch_evidence_tool() if each is fetch_evidence else tool(each) for each in tools],
            system_prompt=SYSTEM,
            checkpointer=InMemorySaver(),
        )

    def make_team(self, wire: Wire) -> Any:
        prompt = "You are an expert."
        expert: Any = make_agent(self.model(wire), [], system_prompt=prompt, name="expert")

        @tool
        def ask_expert(question: str) -> str:
            """Ask an expert."""
            state = expert.invoke({"messages": [HumanMessage(question)]})
            return str(state["messages"][-1].content)

        return make_agent(
            self.model(wire),
            [ask_expert],
            system_prompt=SYSTEM,
            checkpointer=InMemorySaver(),
            name="helper",
        )

    def make_group(self, wire: Wire) -> Any:
        graph = StateGraph(MessagesState)
        for name in self.group_agents:
            prompt = f"You are the {name}."
            graph.add_node(name, make_agent(self.model(wire), [], system_prompt=prompt, name=name))
        for one, other in pairwise((START, *self.group_agents, END)):
            graph.add_edge(one, other)
        return graph.compile(checkpointer=InMemorySaver())

    def ask(self, target: Any, text: str, session_id: str) -> str:
        return _answer(target.invoke(_said(text), _thread(session_id)))

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        return _answer(await target.ainvoke(_said(text), _thread(session_id)))

    async def show(self, target: Any, text: str, png: bytes, session_id: str) -> str:
        given = _said(with_picture(text, png))
        return _answer(await target.ainvoke(given, _thread(session_id)))

    def stream(self, target: Any, text: str, session_id: str) -> Iterator[str]:
        config = _thread(session_id)
        for chunk, _ in target.stream(_said(text), config, stream_mode="messages"):
            if isinstance(chunk, AIMessageChunk) and chunk.content:
                yield str(chunk.content)

    async def astream(self, target: Any, text: str, session_id: str) -> AsyncIterator[str]:
        config = _thread(session_id)
        async for chunk, _ in target.astream(_said(text), config, stream_mode="messages"):
            if isinstance(chunk, AIMessageChunk) and chunk.content:
                yield str(chunk.content)


def _said(text: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def _thread(session_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": session_id}, "recursion_limit": 100}


def _answer(state: dict[str, Any]) -> str:
    return str(state["messages"][-1].content)


class Shelf(BaseRetriever):
    """Gives all of its pages."""

    name: str | None = "shelf"
    pages: Sequence[Page]

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [
            Document(page.text, metadata={"source": page.uri, "score": page.score})
            for page in self.pages
        ]


def _newest(given: dict[str, Any]) -> str:
    return str(given["said"][-1].content)


def _joined(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


class ChainsOnly(LangChainAdapter):
    """Prompt and model alone run no tools and ask no other agent."""

    capabilities = replace(LangChainAdapter.capabilities, tools=False, teams=False, groups=False)


class ChainApps(LangChainApps):
    """A prompt and a model, where the app keeps the messages of each conversation."""

    adapter: ClassVar[Adapter[Any, Any]] = ChainsOnly()
    surfaces: ClassVar[Mapping[str, Surface]] = SURFACES
    histories: ClassVar[dict[int, dict[str, list[BaseMessage]]]] = {}
    """By target and session."""

    def make_target(self, wire: Wire, tools: Sequence[Tool] = ()) -> Any:
        assert not tools
        return self._begun(self._prompt(SYSTEM) | self.model(wire))

    def make_helped(self, wire: Wire) -> Any:
        """LangChain itself marks what its middleware asks; an app marks what it asks aside."""
        model = self.model(wire)
        aside = self._prompt("Give it a title.") | model.with_config(tags=["ce:skip"])
        return self._begun(
            RunnablePassthrough.assign(title=aside) | self._prompt(SYSTEM) | self.model(wire)
        )

    def aside(self, body: JsonObject) -> str | None:
        return "A title" if "title" in body["messages"][0]["content"] else None

    def make_retrieving(self, wire: Wire, pages: Sequence[Page]) -> Any:
        found = RunnableLambda(_newest) | Shelf(pages=pages) | _joined
        prompt = self._prompt(SYSTEM + "\n{found}")
        return self._begun(RunnablePassthrough.assign(found=found) | prompt | self.model(wire))

    def _prompt(self, system: str) -> ChatPromptTemplate:
        return ChatPromptTemplate.from_messages([("system", system), MessagesPlaceholder("said")])

    def _begun(self, chain: Any) -> Any:
        self.histories[id(chain)] = {}
        return chain

    def ask(self, target: Any, text: str, session_id: str) -> str:
        given = self._with(target, text, session_id)
        return self._kept(given, target.invoke({"said": list(given)}, _session(session_id)))

    async def aask(self, target: Any, text: str, session_id: str) -> str:
        given = self._with(target, text, session_id)
        answer = await target.ainvoke({"said": list(given)}, _session(session_id))
        return self._kept(given, answer)

    async def show(self, target: Any, text: str, png: bytes, session_id: str) -> str:
        given = self._with(target, with_picture(text, png), session_id)
        answer = await target.ainvoke({"said": list(given)}, _session(session_id))
        return self._kept(given, answer)

    def stream(self, target: Any, text: str, session_id: str) -> Iterator[str]:
        given, pieces = self._with(target, text, session_id), []
        for chunk in target.stream({"said": list(given)}, _session(session_id)):
            pieces.append(chunk.content)
            if chunk.content:
                yield chunk.content
        self._kept(given, AIMessage("".join(pieces), id=chunk.id))

    async def astream(self, target: Any, text: str, session_id: str) -> AsyncIterator[str]:
        given, pieces = self._with(target, text, session_id), []
        async for chunk in target.astream({"said": list(given)}, _session(session_id)):
            pieces.append(chunk.content)
            if chunk.content:
                yield chunk.content
        self._kept(given, AIMessage("".join(pieces), id=chunk.id))

    def _with(self, target: Any, text: Any, session_id: str) -> list[BaseMessage]:
        history = self.histories[id(target)].setdefault(session_id, [])
        history.append(HumanMessage(text))
        return history

    def _kept(self, history: list[BaseMessage], answer: AIMessage) -> str:
        history.append(answer)
        return str(answer.content)


def _session(session_id: str) -> dict[str, Any]:
    return {"configurable": {"session_id": session_id}}
