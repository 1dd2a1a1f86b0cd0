"""Query engines and chat engines: the same goes out, hits become evidence, and helpers' calls are helpers'."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever

from ce_engine import EvidenceType, Scope, SourceKind
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex import shelf


pytestmark = [
    pytest.mark.scenario(4),
    # A chat engine's streams are read on a thread of its own.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
QUESTIONS = ("What is a lane?", "什么是车道？")
CHATS = [shelf.simple, shelf.context, shelf.condense_question, shelf.condense_plus_context]


def turns(engine: Any, session_id: str = "s") -> list[Any]:
    assert engine.sync.flush()
    return list(engine.loop.run(engine.store.list_turns(Scope(session_id=session_id))))


def answered(body: Any) -> str:
    """An answer by what was asked, whatever comes first: threads may ask."""
    said = str(body["messages"][-1]["content"])
    return f"heard {len(said)}"


@pytest.mark.req("A-24")
@pytest.mark.parametrize("kind", CHATS)
def test_a_chat_engine_sends_the_same(
    kind: Any, way: str, twins: Any, model: Any, call: Any, engine: Any
) -> None:
    def drive(chat: Any) -> Any:
        given = [call(chat, way, question) for question in QUESTIONS]
        return [*given, [(m.role, m.content) for m in chat.chat_history]]

    found = twins(lambda wire: kind(model(wire)), drive, answered)
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]
    condenses = kind in (shelf.condense_question, shelf.condense_plus_context)
    done = turns(engine)
    assert [turn.status for turn in done] == ["committed"] * len(found.ours)
    assert sorted(turn.purpose for turn in done) == ["chat", "chat", *(["helper"] * condenses)]
    assert len({turn.request_id for turn in done}) == 2


@pytest.mark.parametrize("kind", CHATS[:2])
def test_a_chat_engine_s_talk_is_stored_once(
    kind: Any, way: str, twins: Any, model: Any, call: Any, stored: Any
) -> None:
    found = twins(
        lambda wire: kind(model(wire)),
        lambda chat: [call(chat, way, q) for q in QUESTIONS],
        answered,
    )
    first, second = ("".join(pieces) for pieces in found.results[1])
    assert [m.content for m in stored("s").session.messages] == [
        *(QUESTIONS[0], first),
        *(QUESTIONS[1], second),
    ]


@pytest.mark.req("A-24", "A-03", "A-29")
@pytest.mark.parametrize("how", ["query", "aquery"])
@pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize", "simple_summarize"])
def test_hits_are_evidence_that_the_answer_rests_on(
    mode: str, how: str, twins: Any, model: Any, call: Any, engine: Any, stored: Any
) -> None:
    found = twins(
        lambda wire: shelf.query(model(wire), response_mode=mode),
        lambda asked: call(asked, how, QUESTIONS[0]),
        answered,
        session_id="s",
    )
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]
    document = stored("s")
    hits = [e for e in document.evidences.values() if e.type is EvidenceType.RAG_DOC]
    assert [hit.content for hit in hits] == shelf.TEXTS
    assert {hit.source.kind for hit in hits} == {SourceKind.RAG}
    for n, hit in enumerate(hits):
        assert hit.source.uri == f"{n}.md"
        assert hit.metadata["score"] == pytest.approx(0.9 - n / 10)
        assert hit.metadata["doc_version"] == f"v{n}"
        assert hit.metadata["effective_at"] == "2026-01-01"
        assert hit.metadata["hash"]
    (run,) = document.session.tool_state.tool_calls
    assert (run.tool, run.status) == ("Shelf", "success")
    assert len(run.result_evidence_ids) == len(shelf.TEXTS)
    assert len({turn.request_id for turn in turns(engine)}) == 1
    answers = [e for e in document.evidences.values() if e.type is EvidenceType.LLM_OUTPUT]
    usage = {used.model_usage_id for used in document.session.model_usage}
    assert {each.links.model_usage_id for each in answers} == usage
    assert answers


def test_a_retriever_in_a_retriever_is_recorded_once(
    model: Any, call: Any, engine: Any, stored: Any
) -> None:
    with Wire("another question") as wire:
        llm = model(wire)
        fused = QueryFusionRetriever([shelf.Shelf()], llm=llm, num_queries=2, use_async=False)
        asked = RetrieverQueryEngine.from_args(retriever=fused, llm=llm)
        with install_ce(asked, engine=engine, session_id="s"):
            asked.query(QUESTIONS[0])
    (run,) = stored("s").session.tool_state.tool_calls
    assert run.tool == "QueryFusionRetriever"
    assert [turn.purpose for turn in turns(engine)] == ["helper", "chat"]


def test_with_earlier_talk_nothing_is_restored_into_an_engine(
    model: Any, engine: Any, stored: Any
) -> None:
    """The framework puts the messages together: a query is asked as it is."""
    with Wire(answered) as wire:
        asked = shelf.query(model(wire))
        with install_ce(asked, engine=engine, session_id="s"):
            for question in QUESTIONS:
                asked.query(question)
        assert [len(body["messages"]) for body in wire.bodies] == [
            len(wire.bodies[0]["messages"])
        ] * 2
    assert len(stored("s").session.messages) == 4
