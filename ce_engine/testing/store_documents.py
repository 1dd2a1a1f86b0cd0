"""What a store does with whole documents, patches and filters, as tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ce_engine.errors import (
    SchemaValidationError,
    ScopeViolationError,
    SessionNotFoundError,
)
from ce_engine.ports.store import Store
from ce_engine.schema.document import (
    Message,
    SessionDocument,
    Task,
)
from ce_engine.schema.enums import (
    BlockType,
    EvidenceType,
    Priority,
    Role,
    SourceKind,
    TaskStatus,
)
from ce_engine.schema.report import BlockFilter, EvidenceFilter
from ce_engine.schema.rows import (
    AppendMessages,
    PutEvidence,
)
from ce_engine.schema.settings import Versions
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE
from ce_engine.testing.store_reading import read_document, read_state


class DocumentContract:
    """Whole documents and their fields: put, patch, get, filters."""

    pytestmark = pytest.mark.anyio

    @pytest.mark.req("A-07")
    async def test_a_document_comes_back_as_it_was(self, store: Store) -> None:
        document = samples.document()
        await store.put_session(SCOPE, document)
        assert await store.get_session(SCOPE) == document
        await store.put_session(SCOPE, await read_document(store))
        assert await store.get_session(SCOPE) == document
        await store.append_messages(SCOPE, [Message(role=Role.USER, content="next")])
        stored_document = await read_document(store)
        assert [message.seq for message in stored_document.session.messages] == [3, 5, 6]
        assert stored_document.meta is not None
        assert document.meta is not None
        assert stored_document.meta.created_at == document.meta.created_at
        assert stored_document.meta.updated_at > document.meta.updated_at

    async def test_messages_without_ids_get_some_and_hang_together(self, store: Store) -> None:
        document = samples.document()
        plain = [Message(role=Role.USER, content=text) for text in ("one", "two")]
        document.session.messages = plain
        await store.put_session(SCOPE, document)
        first, second = (await read_document(store)).session.messages
        assert (first.seq, second.seq, first.parent_id) == (1, 2, None)
        assert first.message_id
        assert second.parent_id == first.message_id
        assert plain[0].message_id is None

    async def test_a_new_document_takes_the_place_of_all(self, store: Store) -> None:
        await store.put_session(SCOPE, samples.document())
        version = await store.version(SCOPE)
        empty = SessionDocument.model_validate({"session": {"session_id": SCOPE.session_id}})
        await store.put_session(SCOPE, empty)
        stored_document = await read_document(store)
        assert stored_document.model_copy(update={"meta": None}) == empty
        assert version == (1, 1, 0)
        assert await store.version(SCOPE) == (2, 2, 0)
        await store.apply(SCOPE, samples.message("next"))  # no number is given twice
        assert [row.message.seq for row in (await read_state(store)).rows] == [6]

    async def test_a_message_that_stays_is_still_recognised(self, store: Store) -> None:
        rows = [samples.message_row("m1", "same"), samples.message_row("m2", "old")]
        evidence = samples.evidence_row("e1", "same", message_id="m1")
        await store.apply(SCOPE, [AppendMessages(rows), PutEvidence(evidence)])
        document = await read_document(store)
        document.session.messages[1].content = "new"
        await store.put_session(SCOPE, document)
        state = await read_state(store)
        assert [row.key for row in state.rows] == [rows[0].key, b""]
        assert state.rows[1].message == document.session.messages[1]
        assert state.evidence == [replace(evidence, seq=1)]

    async def test_evidence_outlives_its_message(self, store: Store) -> None:
        evidence = samples.evidence_row("e1", "the answer", message_id="m1")
        messages = AppendMessages([samples.bare_row("m1", "the answer")])
        await store.apply(SCOPE, [messages, PutEvidence(evidence)])
        document = await read_document(store)
        document.session.messages = []
        await store.put_session(SCOPE, document)
        assert await store.list_evidences(SCOPE) == [evidence.evidence]

    async def test_a_patch_replaces_the_named_fields(self, store: Store) -> None:
        document = samples.document()
        await store.put_session(SCOPE, document)
        task = Task(task_id="k9", name="next")
        patch = {"summary": None, "task_state": {"todo_list": {"tasks": [task]}}}
        await store.patch_session(SCOPE, patch)
        document.session.summary = None
        document.session.task_state.todo_list.tasks = [task]
        stored_document = await read_document(store)
        assert stored_document.session == document.session
        assert (stored_document.evidences, stored_document.context_blocks) == (
            document.evidences,
            document.context_blocks,
        )
        assert await store.version(SCOPE) == (2, 2, 0)

    async def test_what_cannot_be_put_is_refused(self, store: Store) -> None:
        document = samples.document()
        with pytest.raises(ScopeViolationError, match="other"):
            await store.put_session(SCOPE, samples.document("other"))
        with pytest.raises(ScopeViolationError, match="other"):
            await store.patch_session(SCOPE, {"session_id": "other"})
        wrong = document.model_copy(update={"evidences": {"e1": samples.evidence("e2")}})
        with pytest.raises(SchemaValidationError, match="'e1'"):
            await store.put_session(SCOPE, wrong)
        document.session.messages *= 2
        with pytest.raises(SchemaValidationError, match="message_id 'm1' is not unique"):
            await store.put_session(SCOPE, document)
        with pytest.raises(SessionNotFoundError, match="'s'"):
            await store.patch_session(SCOPE, {"summary": None})
        with pytest.raises(SchemaValidationError, match="model_usage"):
            await store.patch_session(SCOPE, {"colour": "red"})
        assert await store.version(SCOPE) == Versions()

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({}, "abc"),
            ({"types": [EvidenceType.RAG_DOC]}, "b"),
            ({"types": []}, ""),
            ({"source_kinds": [SourceKind.TOOL]}, "ac"),
            ({"tags": {"lang": "zh"}}, "ab"),
            ({"tags": {"lang": "zh", "more": "x"}}, "b"),
            ({"since": "2026-01-02T00:00:00Z"}, "bc"),
            ({"until": "2026-01-02T01:00:00+01:00"}, "ab"),
            ({"since": "2026-01-02T00:00:00.000Z", "until": "2026-01-02"}, "b"),
            ({"limit": 2}, "ab"),
            ({"source_kinds": [SourceKind.TOOL], "limit": 0}, ""),
        ],
    )
    async def test_evidence_is_filtered(
        self, store: Store, given: dict[str, Any], expected: str
    ) -> None:
        zh = {"lang": "zh"}
        rag = samples.evidence("b").source.model_copy(update={"kind": SourceKind.RAG})
        for item in (
            samples.evidence("a", metadata={"created_at": "2026-01-01T00:00:00Z", "tags": zh}),
            samples.evidence(
                "b",
                type=EvidenceType.RAG_DOC,
                source=rag,
                metadata={"created_at": "2026-01-02T00:00:00Z", "tags": {**zh, "more": "x"}},
            ),
            samples.evidence("c", metadata={"created_at": "2026-01-03T00:00:00Z"}),
            samples.evidence("no-date", source=rag, type=EvidenceType.OTHER, metadata={}),
        ):
            await store.put_evidence(SCOPE, item)
        matches = await store.list_evidences(SCOPE, EvidenceFilter(**given))
        assert "".join(i.evidence_id for i in matches if i.evidence_id != "no-date") == expected

    async def test_a_filter_with_a_malformed_time_is_refused(self, store: Store) -> None:
        await store.put_evidence(SCOPE, samples.evidence("a"))
        with pytest.raises(SchemaValidationError, match="yesterday"):
            await store.list_evidences(SCOPE, EvidenceFilter(since="yesterday"))
        with pytest.raises(SchemaValidationError):  # the number of an identity card
            await store.list_evidences(SCOPE, EvidenceFilter(until="110105200202116511"))

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({}, "mhl"),
            ({"block_types": [BlockType.PLAN]}, "h"),
            ({"priorities": [Priority.MUST, Priority.LOW]}, "ml"),
            ({"min_priority": Priority.HIGH}, "mh"),
            ({"min_priority": Priority.LOW, "limit": 1}, "m"),
        ],
    )
    async def test_blocks_are_filtered(
        self, store: Store, given: dict[str, Any], expected: str
    ) -> None:
        blocks = [
            samples.block("m", priority=Priority.MUST),
            samples.block("h", priority=Priority.HIGH, block_type=BlockType.PLAN),
            samples.block("l", priority=Priority.LOW),
        ]
        await store.put_context_blocks(SCOPE, blocks)
        matches = await store.list_context_blocks(SCOPE, BlockFilter(**given))
        assert "".join(block.block_id for block in matches) == expected

    async def test_tasks_are_listed_in_order_of_arrival(self, store: Store) -> None:
        assert await store.list_tasks(SCOPE) == []
        tasks = [Task(task_id=name, name=f"任务 {name}") for name in ("t2", "t1")]
        await store.upsert_tasks(SCOPE, tasks)
        newer = tasks[0].model_copy(update={"status": TaskStatus.COMPLETED})
        await store.upsert_tasks(SCOPE, [newer])
        assert await store.list_tasks(SCOPE) == [newer, tasks[1]]
