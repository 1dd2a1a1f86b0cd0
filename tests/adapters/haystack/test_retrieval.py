"""What is retrieved: evidence once, whoever finds it, with its id, score and origin; rerankers keep it."""

from __future__ import annotations

from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.joiners import DocumentJoiner
from haystack.components.rankers import LLMRanker
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.tools import ComponentTool

from ce_engine import ContextEngine, Evidence, EvidenceType
from ce_integrations.haystack import install_ce
from ce_integrations.identity.session import ce_session
from ce_integrations.testing.answers import JsonObject, text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.haystack.conftest import MakeModel
from tests.adapters.haystack.contract_surfaces import said
from tests.adapters.stored import Stored


DOCUMENTS = [
    Document(content="A lane is a line of conversation.", meta={"url": "https://docs/lane"}),
    Document(content="车道 lane 是一条对话线。", meta={"url": "https://docs/车道"}),
    Document(content="A cut belongs to a lane.", meta={"file_path": "cut.md", "page": 3}),
]
PROMPT = [
    ChatMessage.from_user("{% for each in documents %}{{each.content}}\n{% endfor %}{{question}}")
]


def store() -> InMemoryDocumentStore:
    made = InMemoryDocumentStore()
    made.write_documents(DOCUMENTS)
    return made


@component
class Words:
    """An app's own: it finds what holds a word, and knows of no scores."""

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, list[Document]]:
        return {"documents": [each for each in DOCUMENTS if "lane" in (each.content or "")]}


def hybrid(model: Any, ranker: Any = None) -> Pipeline:
    made = Pipeline()
    made.add_component("bm25", InMemoryBM25Retriever(store()))
    made.add_component("words", Words())
    made.add_component("joiner", DocumentJoiner())
    made.add_component("prompt", ChatPromptBuilder(template=PROMPT))
    made.add_component("llm", model)
    made.connect("bm25.documents", "joiner.documents")
    made.connect("words.documents", "joiner.documents")
    if ranker is None:
        made.connect("joiner.documents", "prompt.documents")
    else:
        made.add_component("ranker", ranker)
        made.connect("joiner.documents", "ranker.documents")
        made.connect("ranker.documents", "prompt.documents")
    made.connect("prompt", "llm")
    return made


def asked(*more: str) -> dict[str, dict[str, str]]:
    question = "What is a lane?"
    given = {name: {"query": question} for name in ("bm25", "words", *more)}
    return {**given, "prompt": {"question": question}}


def found(kept: Stored) -> list[Evidence]:
    evidences = kept.document().evidences.values()
    return [each for each in evidences if each.type is EvidenceType.RAG_DOC]


@pytest.mark.req("A-03", "A-29")
@pytest.mark.scenario(4)
def test_a_document_that_two_retrievers_find_is_evidence_once(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    with Wire("A line.") as wire:
        pipeline = hybrid(model(wire))
        with install_ce(pipeline, engine=engine), ce_session("s"):
            pipeline.run(asked())
    hits = {each.content: each for each in found(kept)}
    assert len(found(kept)) == len(hits) == len(DOCUMENTS)
    for document in DOCUMENTS:
        hit = hits[document.content or ""]
        assert hit.source.uri == document.meta.get("url", document.meta.get("file_path"))
        assert document.id in str(hit.model_dump())
    runs = kept.document().session.tool_state.tool_calls
    assert [(run.tool, len(run.result_evidence_ids)) for run in runs] == [("bm25", 3), ("words", 3)]
    assert {run.args_digest["query"] for run in runs} == {"What is a lane?"}
    answer = kept.document().session.messages[-1]
    assert {ref.evidence_id for ref in answer.refs or ()} == {e.evidence_id for e in hits.values()}
    scores = [each.metadata.get("score") for each in hits.values()]
    assert all(isinstance(score, float) for score in scores)


@pytest.mark.scenario(4)
def test_a_reranker_keeps_what_was_found(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    """It asks for itself, finds nothing anew, and its documents are those that were found."""

    def says(body: JsonObject) -> str:
        ranks = "rank" in str(body["messages"]).lower()
        return '{"documents": [{"index": 3}, {"index": 1}]}' if ranks else "A line."

    with Wire(says) as wire:
        pipeline = hybrid(model(wire), LLMRanker(chat_generator=model(wire)))
        with install_ce(pipeline, engine=engine), ce_session("s"):
            done = pipeline.run(asked("ranker"), include_outputs_from={"ranker"})
    assert [turn.purpose for turn in kept.turns()] == ["helper", "chat"]
    assert len(kept.document().session.tool_state.tool_calls) == 2
    stored = {str(each.model_dump()) for each in found(kept)}
    assert len(stored) == len(DOCUMENTS)
    for document in done["ranker"]["documents"]:
        assert any(document.id in each for each in stored)


def test_a_retriever_that_is_a_tool_finds_for_its_call(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    script = [tool_calls([("search", {"query": "lane"})]), text("A line.")]
    with Wire(script) as wire:
        search = ComponentTool(
            component=InMemoryBM25Retriever(store()),
            name="search",
            description="Search.",
            parameters={"type": "object", "properties": {"query": {"type": "string"}}},
        )
        agent = Agent(chat_generator=model(wire), tools=[search])
        with install_ce(agent, engine=engine), ce_session("s"):
            agent.run(messages=said("lane?"))
    assert {each.content for each in found(kept)} == {each.content for each in DOCUMENTS}
    tools = [run.tool for run in kept.document().session.tool_state.tool_calls]
    assert sorted(tools) == ["InMemoryBM25Retriever", "search"]
