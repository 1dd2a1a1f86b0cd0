"""What prepares documents or judges answers asks beside the talk: nothing of it goes in, and it is no part of it."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.evaluation import (
    CorrectnessEvaluator,
    DatasetGenerator,
    FaithfulnessEvaluator,
    GuidelineEvaluator,
    PairwiseComparisonEvaluator,
    RelevancyEvaluator,
)
from llama_index.core.extractors import KeywordExtractor, TitleExtractor
from llama_index.core.indices import DocumentSummaryIndex, TreeIndex
from llama_index.core.indices.property_graph import SchemaLLMPathExtractor, SimpleLLMPathExtractor
from llama_index.core.query_engine import RetryQueryEngine
from llama_index.core.schema import (
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
    TransformComponent,
)

from ce_engine import Scope
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex import shelf


SAID = "My name is Ann."
JUDGED = {"query": "q", "response": "r", "contexts": ["c"]}


def nodes() -> list[Any]:
    node = TextNode(text="A red lamp is a lamp.", id_="n1")
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="d1")
    return [node]


class Summaries(TransformComponent):
    """Asks a query engine of its own, as the framework's own parsers of tables do."""

    llm: Any

    def __call__(self, nodes: Any, **_: Any) -> Any:
        shelf.query(self.llm).query("What is in the table?")
        return nodes


def dataset(llm: Any) -> Any:
    return DatasetGenerator(nodes(), llm=llm, num_questions_per_chunk=1)


def questions(llm: Any) -> Any:
    return dataset(llm).generate_questions_from_nodes(num=1)


async def aquestions(llm: Any) -> Any:
    return await dataset(llm).agenerate_dataset_from_nodes(num=1)


ONE: dict[str, Any] = {"num_workers": 1, "show_progress": False}

PREPARES = {
    "keywords": lambda llm: KeywordExtractor(llm=llm, **ONE),
    "titles": lambda llm: TitleExtractor(llm=llm, **ONE),
    "paths": lambda llm: SimpleLLMPathExtractor(llm=llm, num_workers=1),
    "schema": lambda llm: SchemaLLMPathExtractor(llm=llm, num_workers=1),
    "summaries": lambda llm: Summaries(llm=llm),
}
JUDGES = {
    "correctness": lambda llm: CorrectnessEvaluator(llm=llm),
    "faithfulness": lambda llm: FaithfulnessEvaluator(llm=llm),
    "relevancy": lambda llm: RelevancyEvaluator(llm=llm),
    "guideline": lambda llm: GuidelineEvaluator(llm=llm, guidelines="Be kind."),
    "pairwise": lambda llm: PairwiseComparisonEvaluator(llm=llm),
}


def prepared(make: Any, how: str) -> Any:
    def ask(llm: Any) -> Any:
        return getattr(make(llm), how)(nodes())

    return ask


def judged(make: Any, how: str) -> Any:
    def ask(llm: Any) -> Any:
        beside = {"second_response": "s"} if make is JUDGES["pairwise"] else {"reference": "f"}
        return getattr(make(llm), how)(**JUDGED, **beside)

    return ask


ASKED: dict[str, Any] = {
    **{
        f"{name} {how}": prepared(make, how)
        for name, make in PREPARES.items()
        for how in ("__call__", "acall")
    },
    "keywords aextract": prepared(PREPARES["keywords"], "aextract"),
    **{
        f"{name} {how}": judged(make, how)
        for name, make in JUDGES.items()
        for how in ("evaluate", "aevaluate")
    },
    "questions": questions,
    "dataset": aquestions,
    "summary index": lambda llm: DocumentSummaryIndex(
        nodes(), llm=llm, embed_model=MockEmbedding(3)
    ),
    "tree index": lambda llm: TreeIndex(nodes() * 3, llm=llm, num_children=2),
}


def purposes(engine: Any) -> list[str]:
    assert engine.sync.flush()
    return [
        turn.purpose for turn in engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
    ]


@pytest.mark.parametrize("name", list(ASKED))
def test_it_hears_nothing_of_the_talk_and_the_talk_nothing_of_it(
    name: str, twins: Any, model: Any, runner: Any, engine: Any
) -> None:
    def drive(llm: Any) -> str:
        llm.chat([ChatMessage(SAID)])

        async def awaited(result: Any) -> None:
            await result

        try:
            result = ASKED[name](llm)
            if hasattr(result, "__await__"):
                runner.run(awaited(result))
        except (ValueError, IndexError):
            pass  # the answers are no such things as are asked for
        return str(llm.chat([ChatMessage("Who am I?")]))

    # Methods that are no coroutines run loops of their own, and a client belongs to one of them.
    found = twins(lambda wire: model(wire, async_http_client=None), drive, session_id="s")
    assert found.ours == found.plain
    assert len(found.ours) > 2
    assert purposes(engine) == ["chat", *["helper"] * (len(found.ours) - 2), "chat"]


def test_the_judge_of_a_query_engine_is_a_helper(model: Any, engine: Any) -> None:
    with Wire(["A line.", "YES"]) as wire:
        llm = model(wire)
        asked = RetryQueryEngine(shelf.query(llm), RelevancyEvaluator(llm=llm))
        with install_ce(asked, engine=engine, session_id="s"):
            assert str(asked.query("What is a lane?")) == "A line."
    assert purposes(engine) == ["chat", "helper"]
