"""How summaries are kept, replaced and deleted, as tests of stores (A-16)."""

from __future__ import annotations

import pytest

from ce_engine.errors import SessionNotFoundError
from ce_engine.ports.store import Store
from ce_engine.schema.document import Summary
from ce_engine.schema.enums import EvidenceType
from ce_engine.schema.rows import AppendMessages, DeleteEvidence, PutEvidence, PutSummary
from ce_engine.schema.settings import Versions
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE, message
from ce_engine.testing.store_deletion import deletion
from ce_engine.testing.store_reading import read_document, read_state


async def read_summary(store: Store) -> Summary | None:
    """The summary in the session's document."""
    return (await read_document(store)).session.summary


class SummariesContract:
    """Summaries of the lanes of a session, and the one that its document shows."""

    pytestmark = pytest.mark.anyio

    @pytest.mark.req("A-16", "E-02")
    async def test_a_summary_takes_the_place_of_those_it_includes(self, store: Store) -> None:
        first, other, both = (
            samples.summary("m1", "first 字 \ud83d"),
            samples.summary("m2", to_index=2, lane_key="other", tokens=0),
            samples.summary("m3", to_index=3, tips=["m2", "m3"], redactor_version="1"),
        )
        await store.apply(SCOPE, [*message("m0"), PutSummary(first, 0), PutSummary(other, 0)])
        assert (await read_state(store, after_seq=1)).summaries == [first, other]
        await store.apply(SCOPE, [PutSummary(both, 0, replaces=["m1", "gone"])])
        assert (await read_state(store)).summaries == [other, both]
        assert await store.version(SCOPE) == Versions(2, 0)

    @pytest.mark.req("A-16")
    async def test_the_document_shows_the_one_that_reaches_furthest(self, store: Store) -> None:
        far, near = samples.summary("m9", to_index=9), samples.summary("m2", to_index=2)
        await store.put_session(SCOPE, samples.document())
        assert await read_summary(store) == samples.document().session.summary
        await store.apply(SCOPE, [PutSummary(far, 1), PutSummary(near, 1)])
        assert await read_summary(store) == far.summary
        again = samples.summary("m9", "newer", to_index=9)
        await store.apply(SCOPE, [PutSummary(again, 1)])
        assert await read_summary(store) == again.summary

    @pytest.mark.req("A-16")
    @pytest.mark.parametrize("field", ["messages", "summary"])
    async def test_they_go_with_what_they_rest_on(self, store: Store, field: str) -> None:
        document = samples.document()
        await store.put_session(SCOPE, document)
        await store.apply(SCOPE, [PutSummary(samples.summary("m2"), 1)])
        await store.patch_session(SCOPE, {"model_usage": []})
        assert len((await read_state(store)).summaries) == 1
        await store.patch_session(SCOPE, {field: getattr(document.session, field)})
        assert (await read_state(store)).summaries == []
        assert await read_summary(store) == document.session.summary

    @pytest.mark.req("A-16", "A-30")
    async def test_one_of_what_was_deleted_meanwhile_is_refused(self, store: Store) -> None:
        await store.apply(SCOPE, [*message("m1"), PutEvidence(samples.evidence_row("e1"))])
        await store.apply(SCOPE, [DeleteEvidence("e1", deletion(store))])
        before = await read_state(store)
        with pytest.raises(SessionNotFoundError, match="epoch"):
            await store.apply(SCOPE, [*message("m2"), PutSummary(samples.summary("m1"), 0)])
        assert await read_state(store) == before

    @pytest.mark.req("A-16", "A-30")
    async def test_none_is_left_of_deleted_evidence(self, store: Store) -> None:
        """Not even in what earlier summaries were made of."""
        metadata = {"stage": "summarize", "created_at": samples.AT}
        outputs = [
            samples.evidence_row(name, "the canary")
            for name in ("e7", "e8")  # the older one's summary was replaced long ago
        ]
        for row in outputs:
            update = {"type": EvidenceType.LLM_OUTPUT, "metadata": metadata}
            row.evidence = row.evidence.model_copy(update=update)
        await store.apply(
            SCOPE,
            [
                AppendMessages([samples.bare_row("m1", "the canary")]),
                PutEvidence(samples.evidence_row("e1", message_id="m1")),
                PutEvidence(samples.evidence_row("e2", "another fact")),
                *map(PutEvidence, outputs),
                PutSummary(samples.summary("m1", "the canary"), 0),
            ],
        )
        result = await store.apply(SCOPE, [DeleteEvidence("e1", deletion(store))])
        assert result.removed == {"evidences": 3}
        assert (await read_state(store)).summaries == []
        document = await read_document(store)
        assert document.session.summary is None
        contents = {name: item.content for name, item in document.evidences.items()}
        assert contents == {"e1": "", "e2": "another fact", "e7": "", "e8": ""}
        again = await store.apply(SCOPE, [DeleteEvidence("e2", deletion(store, "d2"))])
        assert again.removed == {"evidences": 1}
