"""Retrieval chains: the hits become evidence with their call, and the answer rests on them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableParallel, RunnablePassthrough
from langchain_core.tools import create_retriever_tool

from ce_engine import EvidenceType, SourceKind
from ce_integrations.langchain import install_ce


TEXTS = ["A lane is a line of conversation.", "车道是一条对话线。", "A cut belongs to a lane."]


class Shelf(BaseRetriever):
    """Gives all of its documents."""

    name: str | None = "shelf"

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [
            Document(text, id=f"d{n}", metadata={"source": f"file://{n}.md", "score": 0.9 - n / 10})
            for n, text in enumerate(TEXTS)
        ]


def joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def build(chat: Any) -> Any:
    def make(wire: Any) -> Any:
        prompt = ChatPromptTemplate.from_messages(
            [("system", "Answer from:\n{context}"), ("human", "{question}")]
        )
        steps = RunnableParallel(context=Shelf() | joined, question=RunnablePassthrough())
        return steps | prompt | chat(wire) | StrOutputParser()

    return make


QUESTIONS = ("What is a lane?", "什么是车道？")
THREAD = {"configurable": {"thread_id": "t"}}


def ask(call: Any, config: Any = None) -> Any:
    return lambda chain: [call(chain, question, config) for question in QUESTIONS]


@pytest.mark.req("A-24")
def test_with_room_the_bodies_are_the_same(twins: Any, chat: Any, call: Any) -> None:
    found = twins(build(chat), ask(call), "It is a line.")
    assert len(found.ours) == 2
    assert found.ours == found.plain


def test_in_a_session_a_chain_without_memory_gets_one(twins: Any, chat: Any, call: Any) -> None:
    found = twins(build(chat), ask(call, THREAD), "It is a line.", history=True)
    assert found.ours[0] == found.plain[0]
    system, *history, question = found.bodies[1]["messages"]
    assert system == {"role": "system", "content": "Answer from:\n" + "\n\n".join(TEXTS)}
    assert [(m["role"], m["content"]) for m in history] == [
        ("user", QUESTIONS[0]),
        ("assistant", "It is a line."),
    ]
    assert question == {"role": "user", "content": QUESTIONS[1]}


@pytest.mark.req("A-24", "A-03", "A-29")
def test_hits_are_evidence_of_their_call_and_answers_rest_on_them(
    twins: Any, chat: Any, call: Any, stored: Any
) -> None:
    twins(build(chat), ask(call, THREAD), "It is a line.")
    document = stored("t")
    hits = [e for e in document.evidences.values() if e.type is EvidenceType.RAG_DOC]
    assert [(e.content, e.source.uri) for e in hits] == [
        (text, f"file://{n}.md") for n, text in enumerate(TEXTS)
    ]
    assert {e.source.kind for e in hits} == {SourceKind.RAG}
    calls = {c.tool_call_id: c for c in document.session.tool_state.tool_calls}
    assert {c.tool for c in calls.values()} == {"shelf"}
    assert len(calls) == 2
    assert all(e.links.tool_call_id in calls for e in hits)
    answers = [m for m in document.session.messages if m.role == "assistant"]
    for answer in answers:
        assert {ref.evidence_id for ref in answer.refs or ()} >= {e.evidence_id for e in hits}


def test_without_a_session_id_hits_and_answer_share_the_run_s_own(
    chat: Any, call: Any, engine: Any, sessions: Any
) -> None:
    from ce_integrations.testing.wire import Wire

    with Wire("It is.") as wire:
        chain = build(chat)(wire)
        with install_ce(chain, engine=engine):
            for question in ("one", "two"):
                call(chain, question)
    found = sessions()
    assert len(found) == 2
    assert all((s.ephemeral, s.messages, s.evidences) == (True, 2, 4) for s in found)


def test_the_retriever_alone(engine: Any, call: Any, stored: Any) -> None:
    shelf = Shelf()
    before = dict(vars(shelf))
    with install_ce(shelf, engine=engine, session_id="s"):
        documents = call(shelf, "query")
        assert len(documents) == 3
        copy = shelf.model_copy()
        call(copy, "query of a copy")
    assert vars(shelf) == before
    call(copy, "after the end")
    assert len(stored("s").session.tool_state.tool_calls) == 2


def test_a_retriever_that_the_app_calls_itself_knows_the_session(
    engine: Any, call: Any, stored: Any, sessions: Any
) -> None:
    shelf = Shelf()
    with install_ce(shelf, engine=engine):
        call(shelf, "query", THREAD)
        assert inspect.iscoroutinefunction(shelf.ainvoke)
    assert [hit.content for hit in stored("t").evidences.values()] == TEXTS
    assert len(sessions()) == 1


class Best(BaseRetriever):
    """Gives the first of what another one finds, and tells that one of its own run or does not."""

    name: str | None = "best"
    base: BaseRetriever
    tells: bool = True

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        config: Any = {"callbacks": run_manager.get_child()} if self.tells else None
        return self.base.invoke(query, config)[:1]


@pytest.mark.parametrize("tells", [True, False])
def test_a_retriever_around_another_is_one_retrieval(
    engine: Any, call: Any, stored: Any, sessions: Any, tells: bool
) -> None:
    """What the outermost gives is what the app gets."""
    shelf = Shelf()
    best = Best(base=Best(base=shelf, tells=tells), tells=tells)
    with install_ce(best, engine=engine):
        assert len(call(best, "query", THREAD)) == 1
    document = stored("t")
    assert [run.tool for run in document.session.tool_state.tool_calls] == ["best"]
    assert [hit.content for hit in document.evidences.values()] == TEXTS[:1]
    assert len(sessions()) == 1


def test_a_tool_that_retrieves_is_two_facts(engine: Any, call: Any, stored: Any) -> None:
    search = create_retriever_tool(Shelf(), "search", "Search the shelf.")
    with install_ce(search, engine=engine):
        call(search, {"query": "q"}, THREAD)
    runs = stored("t").session.tool_state.tool_calls
    assert sorted(run.tool for run in runs) == ["search", "shelf"]


def test_a_retriever_that_raises_does_so_as_before(engine: Any, call: Any) -> None:
    class Broken(Shelf):
        def _get_relevant_documents(
            self, query: str, *, run_manager: CallbackManagerForRetrieverRun
        ) -> list[Document]:
            raise ConnectionError(query)

    broken = Broken()
    with install_ce(broken, engine=engine, session_id="s"), pytest.raises(ConnectionError):
        call(broken, "x")


def test_a_retriever_serialises_as_before(engine: Any) -> None:
    shelf = Shelf()
    before = (shelf.model_dump(), repr(shelf), shelf == Shelf())
    with install_ce(shelf, engine=engine):
        assert (shelf.model_dump(), repr(shelf), shelf == Shelf()) == before
