"""The app of the demo, as a team would write it: an agent with a tool, and a flow over documents, without us."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from crewai import Agent, Flow
from crewai.events.utils.console_formatter import set_suppress_console_output
from crewai.flow.flow import start
from crewai.knowledge.knowledge import Knowledge
from crewai.knowledge.storage.knowledge_storage import KnowledgeStorage
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool
from pydantic import PrivateAttr

from ce_integrations.crewai.demo_model import OfflineModel
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


class WordStorage(KnowledgeStorage):
    """The index as what a knowledge searches."""

    _index: WordIndex = PrivateAttr()

    def search(self, query: list[str], *_: Any, **__: Any) -> list[Any]:
        """The chunks that share most words with the query, best first."""
        return [
            {
                "id": hit.chunk.id,
                "content": hit.chunk.text,
                "metadata": {**hit.chunk.metadata},
                "score": hit.score,
            }
            for hit in self._index.search(" ".join(query))
        ]


class App:
    """The agent is handed its conversation with each question; the flow keeps none."""

    def __init__(self, packages: Mapping[str, Package], llm: BaseLLM) -> None:
        @tool
        def lookup(distribution: str) -> str:
            """Look up the metadata of an installed Python distribution by its name."""
            return lookup_text(packages, distribution)

        self.agent = Agent(
            role="helper",
            goal="Answer in one or two sentences.",
            backstory=AGENT_PROMPT,
            tools=[lookup],
            llm=llm,
            cache=False,
        )
        self.flow = make_flow(packages, llm)
        self._talk: list[Any] = []

    def ask(self, turn: Turn) -> str:
        """Ask where the turn belongs, and give the answer's text."""
        if turn.surface == "retrieval":
            return str(self.flow.kickoff(inputs={"question": turn.text}))
        self._talk.append({"role": "user", "content": turn.text})
        answer: Any = self.agent.kickoff(list(self._talk))
        self._talk = [message for message in answer.messages if message["role"] != "system"]
        if self._talk[-1]["role"] != "assistant":
            self._talk.append({"role": "assistant", "content": answer.raw})
        return str(answer.raw)


@contextmanager
def silent() -> Iterator[None]:
    """CrewAI draws a box for each run of an agent."""
    set_suppress_console_output(True)
    try:
        yield
    finally:
        set_suppress_console_output(False)


def make_flow(packages: Mapping[str, Package], llm: BaseLLM) -> Any:
    """A flow that looks each question up, and has an agent answer from what it finds."""
    storage = WordStorage()
    storage._index = WordIndex(chunks(packages.values()))  # noqa: SLF001 - pydantic's own way
    knowledge = Knowledge("documents", [], storage=storage)

    class Reading(Flow[dict[str, Any]]):
        @start()
        async def answer(self) -> str:
            question = self.state["question"]
            hits = knowledge.query([question])
            documents = "\n\n".join(hit["content"] for hit in hits)
            reader = Agent(
                role="reader",
                goal="Answer from the documents.",
                backstory=RETRIEVAL_PROMPT.format(context=documents),
                llm=llm,
            )
            return str((await reader.kickoff_async(question)).raw)

    return Reading(suppress_flow_events=True)


def make_llm(quoting: QuotingModel) -> tuple[BaseLLM, str, tuple[type[Exception], ...]]:
    """(model, its name for the reader, what is raised when it cannot answer)."""
    server = endpoint()
    if server is None:
        return OfflineModel.of(quoting), OFFLINE, ()
    from crewai.llms.providers.openai.completion import (  # noqa: PLC0415 - needed with an endpoint only
        OpenAICompletion,
    )
    from openai import OpenAIError  # noqa: PLC0415 - as above

    model = OpenAICompletion(
        model=server.model,
        temperature=0,
        max_tokens=REPLY_TOKENS,
        api_key=server.api_key,
        base_url=server.base_url,
    )
    return model, server.model, (OpenAIError, ConnectionError, ValueError)
