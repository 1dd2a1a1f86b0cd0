"""The app of the demo, as a team would write it: an agent with a tool, and a retrieval chain, without us."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from ce_integrations.demo.documents import Package, WordIndex, chunks, lookup_text
from ce_integrations.demo.quoting import QuotingModel
from ce_integrations.demo.running import (
    AGENT_PROMPT,
    OFFLINE,
    REPLY_TOKENS,
    RETRIEVAL_PROMPT,
    endpoint,
)
from ce_integrations.demo.turns import Turn
from ce_integrations.langchain.demo_model import OfflineChatModel


Failures = tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True)
class App:
    """The agent keeps its history under `thread_id`; the chain keeps none."""

    agent: Runnable[Any, Any]
    chain: Runnable[str, str]
    thread_id: str

    def ask(self, turn: Turn) -> str:
        """Ask where the turn belongs, and give the answer's text."""
        if turn.surface == "retrieval":
            return "".join(self.chain.stream(turn.text))
        state = self.agent.invoke(
            {"messages": [("user", turn.text)]}, {"configurable": {"thread_id": self.thread_id}}
        )
        answer: str = state["messages"][-1].text
        return answer


def make_app(packages: Mapping[str, Package], model: BaseChatModel, thread_id: str) -> App:
    """Put the agent and the chain together."""
    retriever = WordRetriever(index=WordIndex(chunks(packages.values())))
    prompt = ChatPromptTemplate([("system", RETRIEVAL_PROMPT), ("human", "{question}")])
    inputs = {"context": retriever | _joined, "question": RunnablePassthrough()}
    agent = create_agent(
        model, tools=[_lookup(packages)], system_prompt=AGENT_PROMPT, checkpointer=InMemorySaver()
    )
    return App(agent, inputs | prompt | model | StrOutputParser(), thread_id)


def make_chat(quoting: QuotingModel) -> tuple[BaseChatModel, str, Failures]:
    """(model, its name for the reader, what it raises when it cannot answer)."""
    server = endpoint()
    if server is None:
        return OfflineChatModel(quoting=quoting), OFFLINE, ()
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 - needed with an endpoint only
    from openai import OpenAIError  # noqa: PLC0415 - as above

    model = ChatOpenAI(
        model=server.model,
        temperature=0,
        api_key=SecretStr(server.api_key),
        base_url=server.base_url,
        max_completion_tokens=REPLY_TOKENS,
    )
    return model, server.model, (OpenAIError,)


class WordRetriever(BaseRetriever):
    """The index as a retriever."""

    index: WordIndex

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
    ) -> list[Document]:
        matches = [hit.chunk for hit in self.index.search(query)]
        return [
            Document(id=chunk.id, page_content=chunk.text, metadata={**chunk.metadata})
            for chunk in matches
        ]


def _lookup(packages: Mapping[str, Package]) -> BaseTool:
    @tool
    def lookup(distribution: str) -> str:
        """Look up the metadata of an installed Python distribution by its name."""
        return lookup_text(packages, distribution)

    return lookup


def _joined(documents: list[Document]) -> str:
    return "\n\n".join(
        f"[{document.metadata['source']}]\n{document.page_content}" for document in documents
    )
