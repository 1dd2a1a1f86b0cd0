"""The app of the demo, as a team would write it: two agents, a memory of documents and a model, without us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_core import CancellationToken
from autogen_core.memory import (
    ListMemory,
    MemoryContent,
    MemoryMimeType,
    MemoryQueryResult,
)
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import AssistantMessage, ChatCompletionClient, SystemMessage

from ce_integrations.autogen.demo_model import OfflineClient
from ce_integrations.demo.documents import Package, WordIndex, chunks, lookup_text
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.demo.running import (
    AGENT_PROMPT,
    OFFLINE,
    REPLY_TOKENS,
    RETRIEVAL_PROMPT,
    endpoint,
)


MAX_STEPS = 5
"""Times that the agent may call its tool for one question."""


def make_agents(
    packages: Mapping[str, Package], client: ChatCompletionClient
) -> dict[str, BaseChatAgent]:
    """The agents by where a turn may belong; each keeps its conversation itself."""

    def lookup(distribution: str) -> str:
        """Look up the metadata of an installed Python distribution by its name."""
        return lookup_text(packages, distribution)

    agent = AssistantAgent(
        "agent",
        client,
        tools=[lookup],
        system_message=AGENT_PROMPT,
        max_tool_iterations=MAX_STEPS,
    )
    memory = WordMemory(WordIndex(chunks(packages.values())))
    return {"agent": agent, "retrieval": Reader("reader", client, memory)}


def make_client(
    quoting: QuotingModel,
) -> tuple[ChatCompletionClient, str, tuple[type[Exception], ...]]:
    """(client, the model's name for the reader, what is raised when it cannot answer)."""
    server = endpoint()
    if server is None:
        return OfflineClient(quoting), OFFLINE, ()
    from autogen_ext.models.openai import (  # noqa: PLC0415 - needed with an endpoint only
        OpenAIChatCompletionClient,
    )
    from openai import OpenAIError  # noqa: PLC0415 - as above

    options: dict[str, Any] = {"temperature": 0, "max_tokens": REPLY_TOKENS}
    if server.base_url is not None:
        options["base_url"] = server.base_url
    client = OpenAIChatCompletionClient(
        model=server.model, api_key=server.api_key, model_info=OfflineClient.info, **options
    )
    return client, server.model, (OpenAIError,)


class WordMemory(ListMemory):
    """The index as a memory that is asked and does not grow."""

    def __init__(self, index: WordIndex) -> None:
        super().__init__("words")
        self._index = index

    async def query(
        self,
        query: str | MemoryContent = "",
        cancellation_token: CancellationToken | None = None,  # noqa: ARG002 - AutoGen's signature
        **_: Any,
    ) -> MemoryQueryResult:
        """The chunks that share most words with the query, best first."""
        text = query if isinstance(query, str) else str(query.content)
        matches = [hit.chunk for hit in self._index.search(text)]
        return MemoryQueryResult(
            results=[
                MemoryContent(
                    content=chunk.text,
                    mime_type=MemoryMimeType.TEXT,
                    metadata={**chunk.metadata, "id": chunk.id},
                )
                for chunk in matches
            ]
        )


class Reader(BaseChatAgent):
    """Answers from documents that it looks for with each question; keeps what was said."""

    produced_message_types = (TextMessage,)

    def __init__(self, name: str, client: ChatCompletionClient, memory: WordMemory) -> None:
        super().__init__(name, "Answers from the documents of installed distributions.")
        self._client = client
        self._memory = memory
        self._talk = UnboundedChatCompletionContext()

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Read, and answer the newest message."""
        for message in messages:
            await self._talk.add_message(message.to_model_message())
        result = await self._memory.query(messages[-1].to_model_text(), cancellation_token)
        documents = "\n\n".join(
            f"[{(hit.metadata or {})['source']}]\n{hit.content!s}" for hit in result.results
        )
        system = SystemMessage(content=RETRIEVAL_PROMPT.format(context=documents))
        answer = await self._client.create(
            [system, *await self._talk.get_messages()], cancellation_token=cancellation_token
        )
        text = str(answer.content)
        await self._talk.add_message(AssistantMessage(content=text, source=self.name))
        return Response(chat_message=TextMessage(content=text, source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:  # noqa: ARG002 - as above
        """Forget what was said."""
        await self._talk.clear()
