"""What a search finds is evidence, with how near it is, whichever way the collection says that."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from semantic_kernel import Kernel
from semantic_kernel.connectors.in_memory import InMemoryCollection
from semantic_kernel.data.vector import DistanceFunction

from ce_engine import EvidenceType
from ce_integrations import ce_session
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.framework_apps import Page
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.semantic_kernel.configurations import agent
from tests.adapters.semantic_kernel.shelves import shelf


PAGES = (
    Page("A lane is a line of conversation.", "pages/lane.md", 0.8),
    Page("车道是一条对话线。", "pages/车道.md", 0.6),
)
NEAR = {
    "cosine_distance": [0.8, 0.6],
    "cosine_similarity": [0.8, 0.6],
    "DEFAULT": [0.8, 0.6],
    "dot_prod": [0.8, 0.6],
    "euclidean_squared_distance": [round(1 / 1.4, 6), round(1 / 1.8, 6)],
    "manhattan": [round(1 / 1.8, 6), round(1 / 2.2, 6)],
}
"""By the function of the field: how near the pages are."""


@pytest.mark.scenario(11)
@pytest.mark.req("A-03", "A-29")
@pytest.mark.parametrize("function", NEAR)
async def test_hits_of_a_function_that_the_model_calls(
    service: Any, engine: Any, stored: Any, function: str
) -> None:
    collection = shelf(PAGES)
    (field,) = collection.definition.vector_fields
    field.distance_function = DistanceFunction(function)
    look = collection.create_search_function("look", top=2)
    with Wire([tool_calls([("shelf-look", {"query": "lane? 车道"})]), text("A line.")]) as wire:
        made = service(wire)
        kernel = Kernel(services=[made])
        kernel.add_function("shelf", look)
        ann = agent("ann", made)
        ann.kernel.add_function("shelf", look)
        with install_ce(ann, engine=engine), ce_session("s"):
            assert str(await ann.get_response("A lane?")) == "A line."
        assert wire.refusals == []
    field.distance_function = DistanceFunction.DEFAULT
    document = stored.document()
    hits = [e for e in document.evidences.values() if e.type is EvidenceType.RAG_DOC]
    found = [(e.content, e.source.uri, e.metadata["score"]) for e in hits]
    assert sorted(found) == sorted(
        (page.text, page.uri, near) for page, near in zip(PAGES, NEAR[function], strict=True)
    )
    runs = document.session.tool_state.tool_calls
    assert sorted((run.tool, str(run.status)) for run in runs) == [
        *(("shelf", "success"), ("shelf-look", "success"))
    ]
    (answer,) = [m for m in document.session.messages if m.content == "A line."]
    assert {e.evidence_id for e in hits} <= {ref.evidence_id for ref in answer.refs or ()}


@pytest.mark.req("A-29")
async def test_hits_of_a_search_of_the_app_s_own(engine: Any, stored: Any) -> None:
    """The collection is a part of what was installed; what nobody reads was not found."""
    collection, kernel = shelf(PAGES), Kernel()
    kernel.add_function("shelf", collection.create_search_function("look"))
    with install_ce(kernel, engine=engine), ce_session("s"):
        await collection.search("nothing is read")
        found = await collection.search("lane?", top=1)
        assert [hit.record["text"] async for hit in found.results] == [PAGES[0].text]
    document = stored.document()
    assert [e.content for e in document.evidences.values()] == [PAGES[0].text]
    (run,) = document.session.tool_state.tool_calls
    assert run.tool == "shelf"


@pytest.mark.req("A-29")
async def test_a_tracer_that_came_after_us_leaves_a_search_one(
    engine: Any, stored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wraps what we wrapped, we go, and come again: our wrapper inside its own is the one there is."""
    collection, kernel = shelf(PAGES), Kernel()
    kernel.add_function("shelf", collection.create_search_function("look"))
    installation = install_ce(kernel, engine=engine)
    inner = InMemoryCollection._inner_search

    @functools.wraps(inner)
    async def traced(*args: Any, **kwargs: Any) -> Any:
        return await inner(*args, **kwargs)

    monkeypatch.setattr(InMemoryCollection, "_inner_search", traced)
    installation.uninstall()
    with install_ce(kernel, engine=engine), ce_session("s"):
        found = await collection.search("lane?", top=1)
        assert [hit.record["text"] async for hit in found.results] == [PAGES[0].text]
    assert len(stored.document().session.tool_state.tool_calls) == 1
