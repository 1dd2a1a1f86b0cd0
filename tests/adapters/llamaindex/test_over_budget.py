"""Engines over their budget: retrieved text goes wherever it stands, and however it was cut; helpers' talks, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.adapter_budget import LONG_ANSWER, LONG_PAGES, budget_of
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.wire import Wire


BUDGET = 450


class Shelf(BaseRetriever):
    """Gives all of its pages, whose metadata the model is shown."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(text=p.text, metadata={"file": p.uri}), score=p.score)
            for p in LONG_PAGES
        ]


def memory() -> ChatMemoryBuffer:
    return ChatMemoryBuffer.from_defaults(token_limit=1_000_000, chat_store_key="s")


def citing(llm: Any) -> Any:
    splitter = TokenTextSplitter(chunk_size=100, chunk_overlap=10)
    return CitationQueryEngine(retriever=Shelf(), llm=llm, text_splitter=splitter)


def reranking(llm: Any) -> Any:
    rerank = LLMRerank(llm=llm, top_n=4)
    return RetrieverQueryEngine.from_args(Shelf(), llm=llm, node_postprocessors=[rerank])


def in_context(llm: Any) -> Any:
    return ContextChatEngine.from_defaults(Shelf(), llm=llm, memory=memory(), system_prompt="S.")


def condensing(llm: Any) -> Any:
    return CondensePlusContextChatEngine.from_defaults(Shelf(), llm=llm, memory=memory())


def answer(body: Any) -> str:
    if "Relevance:" in str(body):
        return "\n".join(f"Doc: {n}, Relevance: {9 - n}" for n in range(1, 5))
    return LONG_ANSWER


@pytest.mark.parametrize("make", [citing, reranking, in_context, condensing])
def test_what_engines_retrieve_is_shortened_where_it_stands(
    make: Callable[[Any], Any], model: Any, engine: Any
) -> None:
    """In chunks with numbers, in a reranker's list, in the system's message."""
    with Wire(answer) as wire:
        app = make(model(wire))
        ask = getattr(app, "chat", None) or app.query
        with install_ce(app, engine=engine, session_id="s", config=budget_of(BUDGET)) as installed:
            for question in ("What of page 0?", "那又怎样？"):
                ask(question)
                report = installed.last_report("s")
                assert report is not None
                assert not report.over_budget
        bodies = wire.bodies
    assert [n for n in map(count, bodies) if n > BUDGET] == []
    with_pages = [body for body in bodies if "Of page 0 we know" in str(body)]
    assert len(with_pages) >= 2
    assert all(LONG_PAGES[3].text not in str(body) for body in bodies)


@pytest.mark.parametrize("session", ["s", None])
def test_a_memory_sums_up_the_newest_of_what_it_is_to_sum_up(
    session: str | None, model: Any, engine: Any
) -> None:
    """In a named session and in one that nobody named."""
    with Wire(LONG_ANSWER) as wire:
        llm = model(wire)
        kept = ChatSummaryMemoryBuffer.from_defaults(llm=llm, token_limit=900, chat_store_key="")
        chat = SimpleChatEngine.from_defaults(llm=llm, memory=kept)
        with install_ce(chat, engine=engine, session_id=session, config=budget_of(300)):
            for n in range(12):
                chat.chat(f"Question {n}: {LONG_PAGES[n % 4].text[: 80 + 40 * (n % 3)]}?")
        summed = [body for body in wire.bodies if "Transcript so far" in str(body)]
        assert [n for n in map(count, wire.bodies) if n > 300] == []
    assert summed
    assert any("earlier messages left out" in str(body) for body in summed)
    assert all("Write a concise summary" in body["messages"][0]["content"] for body in summed)


def test_a_question_is_condensed_by_the_newest_of_the_talk(model: Any, engine: Any) -> None:
    with Wire(LONG_ANSWER) as wire:
        chat = condensing(model(wire))
        with install_ce(chat, engine=engine, session_id="s", config=budget_of(BUDGET)):
            for n in range(6):
                chat.chat(f"Question {n}: {LONG_PAGES[n % 4].text[:80]}?")
        condensed = [b for b in wire.bodies if "standalone question" in str(b)]
        assert [n for n in map(count, wire.bodies) if n > BUDGET] == []
    last = str(condensed[-1])
    assert "Question 0:" not in last
    assert "Question 4:" in last or "[…" in last
    assert "Question 5:" in last
