"""The app of the demo, as a team would write it: an agent with a tool, and a chat engine over documents, without us."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import LLMMetadata
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool

from ce_integrations.demo.documents import Package, WordIndex, chunks, lookup_text
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.demo.running import (
    AGENT_PROMPT,
    OFFLINE,
    REPLY_TOKENS,
    RETRIEVAL_PROMPT,
    DemoApp,
    endpoint,
)
from ce_integrations.demo.turns import Turn
from ce_integrations.llamaindex.demo_model import WINDOW, OfflineLLM
from ce_integrations.llamaindex.installer import install_ce


Failures = tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True)
class App:
    """The agent and the chat engine keep a memory each."""

    agent: FunctionAgent
    engine: ContextChatEngine
    memory: ChatMemoryBuffer
    runner: asyncio.Runner

    def ask(self, turn: Turn) -> str:
        """Ask where the turn belongs, and give the answer's text."""
        return self.runner.run(self._ask(turn))

    async def _ask(self, turn: Turn) -> str:
        if turn.surface == "retrieval":
            return str(await self.engine.achat(turn.text))
        return str(await self.agent.run(turn.text, memory=self.memory))


@contextmanager
def running(
    packages: Mapping[str, Package], quoting: QuotingModel, session_id: str
) -> Iterator[DemoApp]:
    """The app, while its event loop runs."""
    llm, name, failures = make_llm(quoting)
    with asyncio.Runner() as runner:
        app = make_app(packages, llm, session_id, runner)
        yield DemoApp(
            targets=(app.agent, app.engine),
            install=install_ce,
            ask=app.ask,
            model=name,
            failures=failures,
        )


def make_app(
    packages: Mapping[str, Package], llm: FunctionCallingLLM, key: str, runner: asyncio.Runner
) -> App:
    """Put the agent and the chat engine together."""
    retriever = WordRetriever(WordIndex(chunks(packages.values())))
    engine = ContextChatEngine.from_defaults(
        retriever=retriever,
        llm=llm,
        memory=_memory(key),
        context_template=RETRIEVAL_PROMPT.replace("{context}", "{context_str}"),
    )
    agent = FunctionAgent(llm=llm, tools=[_lookup(packages)], system_prompt=AGENT_PROMPT)
    return App(agent, engine, _memory(key), runner)


def make_llm(quoting: QuotingModel) -> tuple[FunctionCallingLLM, str, Failures]:
    """(model, its name for the reader, what it raises when it cannot answer)."""
    server = endpoint()
    if server is None:
        return OfflineLLM(quoting=quoting), OFFLINE, ()
    from llama_index.llms.openai import OpenAI  # noqa: PLC0415 - needed with an endpoint only
    from openai import OpenAIError  # noqa: PLC0415 - as above

    class Named(OpenAI):
        """Whatever the name of its model: LlamaIndex knows OpenAI's own alone."""

        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(
                model_name=self.model,
                context_window=WINDOW,
                is_chat_model=True,
                is_function_calling_model=True,
            )

    model = Named(
        model=server.model,
        temperature=0,
        max_tokens=REPLY_TOKENS,
        api_key=server.api_key,
        api_base=server.base_url,
    )
    return model, server.model, (OpenAIError,)


def _memory(key: str) -> ChatMemoryBuffer:
    return ChatMemoryBuffer.from_defaults(token_limit=WINDOW, chat_store_key=key)


class WordRetriever(BaseRetriever):
    """The index as a retriever."""

    def __init__(self, index: WordIndex) -> None:
        super().__init__()
        self._index = index

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(
                    id_=hit.chunk.id,
                    text=hit.chunk.text,
                    metadata={**hit.chunk.metadata},
                    excluded_llm_metadata_keys=[*hit.chunk.metadata],
                ),
                score=hit.score,
            )
            for hit in self._index.search(query_bundle.query_str)
        ]


def _lookup(packages: Mapping[str, Package]) -> FunctionTool:
    def lookup(distribution: str) -> str:
        """Look up the metadata of an installed Python distribution by its name."""
        return lookup_text(packages, distribution)

    return FunctionTool.from_defaults(lookup)
