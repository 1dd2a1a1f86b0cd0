"""The app of the demo, as a team would write it: an agent with a tool, and a retrieval chain, without us."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from ce_integrations.langchain.demo_documents import (
    Package,
    WordRetriever,
    documents,
    lookup_text,
)
from ce_integrations.langchain.demo_turns import Turn
from ce_integrations.langchain.offline_model import OfflineChatModel


REPLY_TOKENS = 400

AGENT_PROMPT = (
    "You help a team with the Python distributions that are installed on their machine. Look up what "
    "you do not know, and answer in one or two sentences."
)
RETRIEVAL_PROMPT = (
    "You answer from the documents of installed Python distributions, in one or two sentences. "
    "The documents:\n\n{context}"
)


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
    retriever = WordRetriever(documents=list(documents(packages.values())))
    prompt = ChatPromptTemplate([("system", RETRIEVAL_PROMPT), ("human", "{question}")])
    given = {"context": retriever | _joined, "question": RunnablePassthrough()}
    agent = create_agent(
        model, tools=[_lookup(packages)], system_prompt=AGENT_PROMPT, checkpointer=InMemorySaver()
    )
    return App(agent, given | prompt | model | StrOutputParser(), thread_id)


@dataclass(frozen=True, slots=True)
class Chat:
    """The model, its name for the reader, and what it raises when it cannot answer."""

    model: BaseChatModel
    name: str
    failures: tuple[type[Exception], ...] = ()


def make_chat(packages: Mapping[str, Package], count: Callable[[str], int]) -> Chat:
    """The endpoint that the environment names, else the offline model, which counts with `count`."""
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL")):
        model = OfflineChatModel(known=frozenset(packages), count=count)
        return Chat(model, "offline model (quotes its input)")
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 - needed with an endpoint only
    from openai import OpenAIError  # noqa: PLC0415 - as above

    name = os.environ.get("OPENAI_MODEL", "gpt-4o-mini")
    # Servers of one's own take any key, but the client wants one.
    key = SecretStr(os.environ.get("OPENAI_API_KEY") or "none")
    endpoint = ChatOpenAI(
        model=name, temperature=0, api_key=key, max_completion_tokens=REPLY_TOKENS
    )
    return Chat(endpoint, name, (OpenAIError,))


def _lookup(packages: Mapping[str, Package]) -> BaseTool:
    @tool
    def lookup(distribution: str) -> str:
        """Look up the metadata of an installed Python distribution by its name."""
        return lookup_text(packages, distribution)

    return lookup


def _joined(found: list[Document]) -> str:
    return "\n\n".join(
        f"[{document.metadata['source']}]\n{document.page_content}" for document in found
    )
