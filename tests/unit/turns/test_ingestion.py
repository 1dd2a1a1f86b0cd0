"""What is handed in by hand: stored once, redacted, linked, with a confidence (A-09, A-29, A-25)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_engine import (
    BlockType,
    ConfigError,
    ContextBlock,
    ContextEngine,
    EvidenceLinks,
    EvidenceSource,
    EvidenceType,
    IngestOptions,
    MemoryStore,
    Priority,
    ProviderKind,
    RedactionConfig,
    Ref,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    SchemaValidationError,
    Scope,
    SessionDocument,
    SourceKind,
    Task,
    TaskStatus,
    ToolCallStatus,
    ToolRun,
    ToolType,
    create_context_engine,
)
from ce_engine.schema.events import Event, EventType
from ce_engine.testing.host import HostApp
from ce_engine.turns.record.confidence import SCORES, by_rule, from_score
from tests.hosts.broken_parts import BrokenHasher, BrokenRedactor


SCOPE = Scope(session_id="s", user_id="u", account_id="a")
WIKI = EvidenceSource(kind=SourceKind.RAG, name="wiki", uri="kb://orders")
ORDERS = EvidenceSource(kind=SourceKind.TOOL, name="getOrder", uri="https://orders")
MAIL = "anna.berg@example.com"


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def document(engine: ContextEngine, scope: Scope = SCOPE) -> SessionDocument:
    engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(scope))
    assert found is not None
    return found


def degraded(engine: ContextEngine, scope: Scope = SCOPE) -> list[dict[str, Any]]:
    engine.sync.flush()
    events: list[Event] = engine.loop.run(engine.store.list_events(scope))
    return [event.payload for event in events if event.event_type == EventType.DEGRADED]


@pytest.mark.req("A-09")
def test_the_same_content_of_the_same_source_is_stored_once(engine: ContextEngine) -> None:
    first, *again = (
        engine.sync.ingest(SCOPE, "Paid on 2 May.", WIKI, EvidenceType.RAG_DOC, link)
        for link in (
            None,
            EvidenceLinks(tool_call_id="call-1"),
            EvidenceLinks(tool_call_id="call-2"),
        )
    )
    assert {each.evidence_id for each in again} == {first.evidence_id}
    [stored] = document(engine).evidences.values()
    assert stored.links.tool_call_id == "call-1"
    assert [link["tool_call_id"] for link in stored.metadata["links"]] == ["call-2"]
    elsewhere = WIKI.model_copy(update={"uri": "kb://other"})
    engine.sync.ingest(SCOPE, "Paid on 2 May.", elsewhere, EvidenceType.RAG_DOC)
    engine.sync.ingest(
        SCOPE, "Paid on 2 May.", WIKI, EvidenceType.RAG_DOC, options=IngestOptions(dedup=False)
    )
    assert len(document(engine).evidences) == 3


@pytest.mark.req("A-09")
def test_the_result_of_a_pure_tool_is_known_by_its_arguments(engine: ContextEngine) -> None:
    def run(args: dict[str, Any], result: str, **more: Any) -> list[str]:
        found = engine.sync.record_tool_run(SCOPE, ToolRun("add", args, result, **more))
        return found.result_evidence_ids

    first = run({"a": 1, "b": 2}, "3", pure=True)
    assert run({"b": 2, "a": 1}, "3", pure=True) == first
    assert run({"a": 1, "b": 3}, "4", pure=True) != first
    assert run({"a": 1, "b": 2}, "3") != first, "of a tool that is not pure two runs are two facts"
    failed = run({"a": 1, "b": 2}, "overflow", pure=True, status=ToolCallStatus.ERROR)
    assert failed != first
    by_hand = IngestOptions(pure_args={"id": 7})
    one = engine.sync.ingest(SCOPE, "x", ORDERS, EvidenceType.TOOL_RESULT, options=by_hand)
    two = engine.sync.ingest(SCOPE, " x", ORDERS, EvidenceType.TOOL_RESULT, options=by_hand)
    assert (two.evidence_id, two.content) == (one.evidence_id, "x")


@pytest.mark.req("A-09", "B-02")
def test_what_is_given_back_is_what_is_stored_redacted(engine: ContextEngine) -> None:
    given = engine.sync.ingest(
        "s", f"Ask {MAIL}.", WIKI, EvidenceType.RAG_DOC, metadata={"tags": [MAIL]}
    )
    stored = document(engine, Scope(session_id="s")).evidences[given.evidence_id]
    assert given.model_copy(update={"metadata": {}}) == stored.model_copy(update={"metadata": {}})
    assert MAIL not in given.model_dump_json()
    given.metadata["tags"] = "mine"
    assert engine.sync.ingest("s", f"Ask {MAIL}.", WIKI, EvidenceType.RAG_DOC) != given


@pytest.mark.req("A-09", "B-02")
def test_redaction_is_switched_off_for_the_whole_engine_or_not_at_all() -> None:
    raw = IngestOptions(redact=False)
    engine = create_context_engine(MemoryStore())
    with pytest.raises(ConfigError, match="RedactionConfig"):
        engine.sync.ingest(SCOPE, MAIL, WIKI, EvidenceType.RAG_DOC, options=raw)
    engine.sync.close()
    config = RuntimeConfig(redaction=RedactionConfig(enabled=False))
    engine = create_context_engine(MemoryStore(), config=config)
    found = engine.sync.ingest(SCOPE, MAIL, WIKI, EvidenceType.RAG_DOC, options=raw)
    assert found.content == MAIL
    engine.sync.close()


@pytest.mark.req("A-09")
@pytest.mark.parametrize(
    ("source", "metadata", "options", "confidence"),
    [
        (WIKI, {"score": 0.2}, IngestOptions(confidence=0.7), 0.7),
        (WIKI, {"score": 0.2}, None, 0.2),
        (WIKI, {"score": 10, "score_kind": "bm25"}, None, 0.5),
        (WIKI, {"score": 10}, None, None),
        (WIKI, {}, None, None),
        (ORDERS, {}, None, 0.9),
        (ORDERS, {"status": "timeout"}, None, 0.1),
        (ORDERS, {"status": "success"}, None, 0.9),
    ],
)
def test_confidence_is_as_given_else_by_rule(
    engine: ContextEngine,
    source: EvidenceSource,
    metadata: dict[str, Any],
    options: IngestOptions | None,
    confidence: float | None,
) -> None:
    found = engine.sync.ingest(
        SCOPE, "x", source, EvidenceType.OTHER, metadata=metadata, options=options
    )
    assert found.confidence == confidence


@pytest.mark.req("A-09")
@pytest.mark.parametrize(
    ("kind", "score", "confidence"),
    [
        ("similarity", 0.75, 0.75),
        ("similarity", 1.5, None),
        ("cosine", -1.0, 0.0),
        ("cosine", 0.5, 0.75),
        ("cosine_distance", 2.0, 0.0),
        ("cosine_distance", 0.5, 0.75),
        ("distance", 0.0, 1.0),
        ("distance", 3.0, 0.25),
        ("distance", -1.0, None),
        ("bm25", 30.0, 0.75),
        ("bm25", 0.0, 0.0),
        ("logit", 0.0, 0.5),
        ("logit", -1e9, 0.0),
        ("", -0.5, None),
        ("stars", 0.5, None),
        ("similarity", math.nan, None),
        ("bm25", math.inf, None),
        ("distance", 10**400, None),
        ("similarity", True, None),
        ("similarity", "0.5", None),
        ("similarity", Fraction(1, 2), 0.5),
    ],
)
def test_a_score_becomes_a_confidence_by_its_kind(
    kind: str, score: object, confidence: float | None
) -> None:
    assert from_score(score, kind) == (
        confidence if confidence is None else pytest.approx(confidence, abs=1e-6)
    )


@given(st.sampled_from(sorted(SCORES)), st.floats() | st.integers())
def test_a_confidence_is_in_0_to_1_whatever_the_score(kind: str, score: float) -> None:
    found = from_score(score, kind)
    assert found is None or 0 <= found <= 1


@pytest.mark.parametrize("kind", list(SourceKind))
def test_without_a_score_the_source_says_how_far_it_is_trusted(kind: SourceKind) -> None:
    found = by_rule(kind)
    assert (found is None) == (kind is SourceKind.RAG)
    failed = by_rule(kind, status=ToolCallStatus.ERROR)
    assert failed is not None
    assert failed < (found or 1.0)


def test_a_confidence_out_of_range_is_refused() -> None:
    with pytest.raises(SchemaValidationError, match="score_kind"):
        IngestOptions(confidence=12.5)


@pytest.mark.req("A-29")
def test_an_mcp_call_is_recorded_with_its_server_and_its_result(engine: ContextEngine) -> None:
    answer = {
        "content": [
            {"type": "text", "text": "订单已付款"},
            {"type": "resource", "resource": {"uri": "order://7", "text": "total 12"}},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
        ],
        "isError": False,
    }
    run = ToolRun.from_mcp(
        "getOrder", {"mail": MAIL}, answer, server="orders", uri="mcp://orders", duration_ms=3
    )
    call = engine.sync.record_tool_run(SCOPE, run)
    doc = document(engine)
    assert doc.session.tool_state.tool_calls == [call]
    assert (call.provider.kind, call.provider.name, call.provider.uri) == (
        ProviderKind.MCP,
        "orders",
        "mcp://orders",
    )
    assert MAIL not in str(call.args_digest)
    [evidence_id] = call.result_evidence_ids
    evidence = doc.evidences[evidence_id]
    assert evidence.content == "订单已付款\ntotal 12\n[image image/png, 3 bytes]"
    assert (evidence.confidence, evidence.links.tool_call_id) == (0.9, call.tool_call_id)


@pytest.mark.req("A-29", "A-09")
def test_an_mcp_call_that_failed_says_so(engine: ContextEngine) -> None:
    answer = {"structuredContent": {"code": 404}, "isError": True}
    run = ToolRun.from_mcp("getOrder", {}, answer, server="orders", uri="mcp://orders")
    call = engine.sync.record_tool_run("s", run)
    [evidence] = document(engine, Scope(session_id="s")).evidences.values()
    assert call.status is ToolCallStatus.ERROR
    assert (evidence.content, evidence.confidence) == ('{"code": 404}', 0.1)
    assert evidence.metadata["status"] == "error"


@pytest.mark.req("A-29")
@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (None, (ToolType.TOOL, SourceKind.TOOL, EvidenceType.TOOL_RESULT)),
        (
            ToolType.FUNCTION_CALL,
            (ToolType.FUNCTION_CALL, SourceKind.TOOL, EvidenceType.TOOL_RESULT),
        ),
        (ToolType.SKILL, (ToolType.SKILL, SourceKind.SKILL, EvidenceType.SKILL_OUTPUT)),
    ],
)
def test_a_run_says_what_kind_of_tool_it_is(
    engine: ContextEngine, kind: ToolType | None, found: tuple[ToolType, SourceKind, EvidenceType]
) -> None:
    call = engine.sync.record_tool_run(SCOPE, ToolRun("翻译", {}, "good morning", type=kind))
    [evidence] = document(engine).evidences.values()
    assert (call.type, evidence.source.kind, evidence.type) == found
    assert call.result_evidence_ids == [evidence.evidence_id]


@pytest.mark.req("A-29")
def test_a_retrieval_by_hand_is_a_call_with_its_documents(engine: ContextEngine) -> None:
    about = {"doc_version": "3", "effective_at": "2026-01-01", "domain": "orders", "tags": ["退款"]}
    hits = [RetrievedDoc("Refunds take 5 days.", "kb://refunds", 30.0, about, "d1")]
    hit = Retrieval("wiki", "refund?", hits, score_kind="bm25")
    ids = engine.sync.record_retrieval(SCOPE, hit)
    doc = document(engine)
    [call] = doc.session.tool_state.tool_calls
    assert (call.tool, call.result_evidence_ids) == ("wiki", ids)
    evidence = doc.evidences[ids[0]]
    assert evidence.type is EvidenceType.RAG_DOC
    assert (evidence.confidence, evidence.links.tool_call_id) == (0.75, call.tool_call_id)
    assert about.items() <= evidence.metadata.items()


@pytest.mark.req("A-09", "A-29")
async def test_by_hand_it_is_one_await(engine: ContextEngine) -> None:
    call = await engine.record_tool_run(SCOPE, ToolRun("clock", {}, "12:00"))
    ids = await engine.record_retrieval(SCOPE, Retrieval("wiki", "q", [RetrievedDoc("a doc")]))
    found = await engine.ingest(SCOPE, "a fact", ORDERS, EvidenceType.OTHER)
    doc = document(engine)
    assert {*call.result_evidence_ids, *ids, found.evidence_id} == set(doc.evidences)
    assert len({c.tool_call_id for c in doc.session.tool_state.tool_calls}) == 2


@pytest.mark.req("B-02")
def test_blocks_and_tasks_are_stored_redacted(engine: ContextEngine) -> None:
    block = ContextBlock(
        block_id="b1",
        block_type=BlockType.MEMORY,
        priority=Priority.HIGH,
        content=f"Prefers mail to {MAIL}",
        refs=[Ref(evidence_id="e1", selector=f"regex:{MAIL}")],
        sensitivity=MAIL,
    )
    engine.sync.put_context_blocks(SCOPE, [block])
    tasks = [
        Task(task_id="t1", name=f"Write to {MAIL}"),
        Task(task_id="t2", name="Pay", status=TaskStatus.FAILED, error=f"no {MAIL}"),
    ]
    engine.sync.upsert_tasks(SCOPE, tasks)
    doc = document(engine)
    assert MAIL not in doc.model_dump_json()
    assert [task.task_id for task in doc.session.task_state.todo_list.tasks] == ["t1", "t2"]
    [stored] = doc.context_blocks
    assert stored.content.startswith("Prefers mail to [EMAIL_")
    assert stored.token_estimate > 0
    assert stored.created_at
    assert block.content.endswith(MAIL), "what was handed in is left as it was"


@pytest.mark.req("A-25", "A-09", "A-26")
def test_a_hash_that_fails_skips_the_search_for_duplicates() -> None:
    engine = create_context_engine(MemoryStore(), hasher=BrokenHasher())
    one = engine.sync.ingest(SCOPE, "same", WIKI, EvidenceType.RAG_DOC)
    two = engine.sync.ingest(SCOPE, "same", WIKI, EvidenceType.RAG_DOC)
    assert one.evidence_id != two.evidence_id
    assert set(document(engine).evidences) == {one.evidence_id, two.evidence_id}
    skipped = {"code": "CONTEXT_DEDUP_SKIPPED", "reason": "dedup_skipped"}
    assert degraded(engine) == [skipped, skipped]
    app = HostApp(engine, SCOPE)
    assert app.ask("next?", "yes").report.degradations == ["CONTEXT_DEDUP_SKIPPED"]
    assert app.ask("and?", "yes").report.degradations == []
    engine.sync.close()


@pytest.mark.req("A-25")
def test_arguments_that_cannot_be_hashed_skip_it_too(engine: ContextEngine) -> None:
    odd: dict[Any, Any] = {1: "a", "b": 2}
    for _ in range(2):
        engine.sync.record_tool_run(SCOPE, ToolRun("odd", odd, "same", pure=True))
    assert len(document(engine).evidences) == 2
    assert [payload["reason"] for payload in degraded(engine)] == ["dedup_skipped"] * 2


@pytest.mark.req("A-25", "B-02")
def test_where_redaction_fails_content_is_withheld_and_the_report_says_so() -> None:
    engine = create_context_engine(MemoryStore(), redactor=BrokenRedactor())
    found = engine.sync.ingest(SCOPE, MAIL, WIKI, EvidenceType.RAG_DOC)
    assert (found.content, found.metadata["has_sensitive"]) == ("", True)
    failed = {"code": "CONTEXT_REDACTION_FAILED", "reason": "redaction_failed"}
    assert degraded(engine) == [failed]
    report = HostApp(engine, SCOPE).ask(f"I am {MAIL}", "hello").report
    assert report.degradations == ["CONTEXT_REDACTION_FAILED"]
    engine.sync.flush()
    [turn] = engine.loop.run(engine.store.list_turns(SCOPE))
    assert turn.report["degradations"] == ["CONTEXT_REDACTION_FAILED"]
    assert MAIL not in document(engine).model_dump_json()
    engine.sync.close()


@pytest.mark.req("A-25")
def test_a_redaction_that_fails_refuses_nothing_that_can_be_recorded() -> None:
    config = RuntimeConfig(fail="closed")
    engine = create_context_engine(MemoryStore(), redactor=BrokenRedactor(), config=config)
    assert HostApp(engine, SCOPE).ask("hello?", "hello").report.degradations
    engine.sync.close()
