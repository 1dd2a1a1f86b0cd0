"""The app of the demo, as a team would write it: two agents, a search, their threads and a service, without us."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.open_ai import (
    OpenAIChatCompletion,
    OpenAIChatPromptExecutionSettings,
)
from semantic_kernel.connectors.in_memory import InMemoryCollection
from semantic_kernel.data.vector import (
    KernelSearchResults,
    SearchType,
    VectorSearchResult,
    VectorStoreCollectionDefinition,
    VectorStoreField,
)
from semantic_kernel.exceptions import ServiceResponseException
from semantic_kernel.functions import KernelArguments, KernelPlugin, kernel_function
from semantic_kernel.prompt_template import PromptTemplateConfig

from ce_integrations.demo.documents import Package, WordIndex, chunks, lookup_text
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.demo.running import (
    AGENT_PROMPT,
    OFFLINE,
    REPLY_TOKENS,
    RETRIEVAL_PROMPT,
    endpoint,
)
from ce_integrations.semantic_kernel.demo_model import OfflineService


Ask = Callable[[str, str], Coroutine[Any, Any, str]]


def make_agents(
    packages: Mapping[str, Package], service: ChatCompletionClientBase, session_id: str
) -> tuple[dict[str, ChatCompletionAgent], Ask]:
    """The agents by where a turn may belong, and what asks one of them: each has a thread."""

    @kernel_function
    def lookup(distribution: str) -> str:
        """Look up the metadata of an installed Python distribution by its name."""
        return lookup_text(packages, distribution)

    agent = ChatCompletionAgent(
        name="agent",
        service=service,
        instructions=AGENT_PROMPT,
        plugins=[KernelPlugin.from_object("metadata", {"lookup": lookup})],
    )
    # Its instructions are rendered for each question: then the documents are looked for.
    reads = PromptTemplateConfig(
        template=RETRIEVAL_PROMPT.format(context="{{documents.search $question}}"),
        allow_dangerously_set_content=True,
    )
    reader = ChatCompletionAgent(name="reader", service=service, prompt_template_config=reads)
    words = WordSearch(WordIndex(chunks(packages.values())))
    reader.kernel.add_function(
        "documents", words.create_search_function("search", string_mapper=_render_hit)
    )
    agents = {"agent": agent, "retrieval": reader}
    threads = {
        surface: ChatHistoryAgentThread(thread_id=f"{session_id}-{surface}") for surface in agents
    }

    async def ask(surface: str, text: str) -> str:
        settings = OpenAIChatPromptExecutionSettings(temperature=0, max_tokens=REPLY_TOKENS)
        arguments = KernelArguments(settings=settings, question=text)
        agent, thread = agents[surface], threads[surface]
        try:
            return str(await agent.get_response(text, thread=thread, arguments=arguments))
        except ServiceResponseException as error:
            raise error.__cause__ or error from None  # what the provider said

    return agents, ask


def make_service(
    quoting: QuotingModel,
) -> tuple[
    ChatCompletionClientBase,
    str,
    tuple[type[Exception], ...],
    Callable[[], Coroutine[Any, Any, None]],
]:
    """(service, the model's name for the reader, what is raised when it cannot answer, what closes it)."""
    server = endpoint()
    if server is None:
        offline = OfflineService(quoting)
        return offline, OFFLINE, (), offline.close
    from openai import AsyncOpenAI, OpenAIError  # noqa: PLC0415 - needed with an endpoint only

    client = AsyncOpenAI(api_key=server.api_key, base_url=server.base_url)
    service = OpenAIChatCompletion(ai_model_id=server.model, async_client=client)
    return service, server.model, (OpenAIError,), client.close


FIELDS = VectorStoreCollectionDefinition(
    fields=[
        VectorStoreField("key", name="id"),
        VectorStoreField("data", name="text", is_full_text_indexed=True),
        VectorStoreField("data", name="source"),
        VectorStoreField("data", name="doc_version"),
        VectorStoreField("vector", name="vector", dimensions=1),
    ]
)


class WordSearch(InMemoryCollection[str, Any]):
    """The index as a collection of its own kind: it looks for words, and wants no vectors."""

    _index: WordIndex

    def __init__(self, index: WordIndex) -> None:
        super().__init__(record_type=dict, definition=FIELDS, collection_name="documents")
        self._index = index

    async def _inner_search(
        self,
        search_type: SearchType,  # noqa: ARG002 - Semantic Kernel's signature
        options: Any,
        values: Any = None,
        vector: Any = None,  # noqa: ARG002 - as above
        **_: Any,
    ) -> KernelSearchResults[VectorSearchResult[Any]]:
        """The chunks that share most words with the query, best first."""
        records = [
            {"id": hit.chunk.id, "text": hit.chunk.text, **hit.chunk.metadata}
            for hit in self._index.search(str(values))
        ]
        return KernelSearchResults(results=_hits(records[: options.top]))


async def _hits(
    records: list[dict[str, Any]],
) -> AsyncIterator[VectorSearchResult[Any]]:
    for record in records:
        yield VectorSearchResult(record=record)


def _render_hit(hit: VectorSearchResult[Any]) -> str:
    return f"[{hit.record['source']}]\n{hit.record['text']}\n\n"
