"""The app of the demo, as a team would write it: an agent with a tool, and a pipeline over documents, without us."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.dataclasses import ChatMessage
from haystack.tools.tool import Tool

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
from ce_integrations.haystack.demo_model import OfflineChatGenerator
from ce_integrations.haystack.installer import install_ce


DOCUMENTS = "{% for each in documents %}{{ each.content }}\n\n{% endfor %}"

Failures = tuple[type[Exception], ...]


@component
class WordRetriever:
    """The index as a retriever."""

    def __init__(self, index: WordIndex) -> None:
        self._index = index

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, list[Document]]:
        """What shares words with the query."""
        return {
            "documents": [
                Document(
                    id=hit.chunk.id,
                    content=hit.chunk.text,
                    meta={**hit.chunk.metadata},
                    score=hit.score,
                )
                for hit in self._index.search(query)
            ]
        }


@dataclass(slots=True)
class App:
    """The app keeps the agent's messages; of the pipeline's it keeps none."""

    agent: Agent
    pipeline: Pipeline
    messages: list[ChatMessage] = field(default_factory=list)

    def ask(self, turn: Turn) -> str:
        """Ask where the turn belongs, and give the answer's text."""
        if turn.surface == "retrieval":
            inputs = {"retriever": {"query": turn.text}, "prompt": {"question": turn.text}}
            return str(self.pipeline.run(inputs)["llm"]["replies"][0].text)
        self.messages.append(ChatMessage.from_user(turn.text))
        self.messages = self.agent.run(messages=self.messages)["messages"]
        return str(self.messages[-1].text)


@contextmanager
def running(
    packages: Mapping[str, Package],
    quoting: QuotingModel,
    session_id: str,  # noqa: ARG001 - these objects have no ids; it is told where they are installed on
) -> Iterator[DemoApp]:
    """The app, until its clients are closed."""
    models = [make_model(quoting) for _ in range(2)]
    (model, name, failures), (other, _, _) = models
    app = make_app(packages, model, other)
    yield DemoApp(
        targets=(app.agent, app.pipeline),
        install=install_ce,
        ask=app.ask,
        model=name,
        failures=failures,
    )
    app.agent.close()
    app.pipeline.close()


def make_app(packages: Mapping[str, Package], model: Any, other: Any) -> App:
    """Put the agent and the pipeline together."""
    prompt = RETRIEVAL_PROMPT.replace("{context}", DOCUMENTS)
    template = [ChatMessage.from_system(prompt), ChatMessage.from_user("{{ question }}")]
    pipeline = Pipeline()
    pipeline.add_component("retriever", WordRetriever(WordIndex(chunks(packages.values()))))
    pipeline.add_component("prompt", ChatPromptBuilder(template=template))
    pipeline.add_component("llm", other)
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt", "llm")
    agent = Agent(chat_generator=model, tools=[_lookup(packages)])
    return App(agent, pipeline, [ChatMessage.from_system(AGENT_PROMPT)])


def make_model(quoting: QuotingModel) -> tuple[Any, str, Failures]:
    """(model, its name for the reader, what it raises when it cannot answer)."""
    server = endpoint()
    if server is None:
        return OfflineChatGenerator(quoting), OFFLINE, ()
    from haystack.components.generators.chat import OpenAIChatGenerator  # noqa: PLC0415 - needed with an endpoint only
    from haystack.core.errors import PipelineRuntimeError  # noqa: PLC0415 - as above
    from haystack.utils import Secret  # noqa: PLC0415 - as above
    from openai import OpenAIError  # noqa: PLC0415 - as above

    model = OpenAIChatGenerator(
        api_key=Secret.from_token(server.api_key),
        model=server.model,
        api_base_url=server.base_url,
        generation_kwargs={"temperature": 0, "max_tokens": REPLY_TOKENS},
    )
    return model, server.model, (OpenAIError, PipelineRuntimeError)


def _lookup(packages: Mapping[str, Package]) -> Tool:
    def lookup(distribution: str) -> str:
        return lookup_text(packages, distribution)

    return Tool(
        name="lookup",
        description="Look up the metadata of an installed Python distribution by its name.",
        parameters={
            "type": "object",
            "properties": {"distribution": {"type": "string"}},
            "required": ["distribution"],
        },
        function=lookup,
    )
