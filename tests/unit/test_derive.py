"""What a session holds becomes context blocks, and materials for a call (A-10, A-25)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ce_engine import (
    BlockDeriver,
    BlockType,
    CharBasedEstimator,
    ContextBlock,
    ContextEngine,
    DeriveOptions,
    Evidence,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    Priority,
    Ref,
    Role,
    Scope,
    Session,
    SessionDeriver,
    SessionDocument,
    SourceKind,
    Task,
    TaskStatus,
    create_context_engine,
)
from ce_engine.errors import StoreUnavailableError
from ce_engine.prepare.derive_session import task_list
from ce_engine.prepare.material import Collected
from ce_engine.schema.document import MessageIndexRange, Summary, TaskState, TodoList
from ce_engine.schema.events import EventType
from ce_engine.testing.host import HostApp


SCOPE = Scope(session_id="s", user_id="u")
TASKS = [
    Task(task_id="a", name="收集数据", status=TaskStatus.COMPLETED),
    Task(task_id="b", name="Write the report", status=TaskStatus.IN_PROGRESS, depends_on=["a"]),
    Task(task_id="c", name="Send it", depends_on=["b", "a", "gone"]),
    Task(task_id="d", name="Pay", status=TaskStatus.FAILED, error="no money"),
]


def evidence(name: str, confidence: float | None = None, **metadata: Any) -> Evidence:
    return Evidence(
        evidence_id=name,
        type=EvidenceType.RAG_DOC,
        source=EvidenceSource(kind=SourceKind.RAG),
        content=f"What {name} says.",
        confidence=confidence,
        metadata=metadata,
    )


def document(*contents: str, **fields: Any) -> SessionDocument:
    roles = [Role.USER, Role.ASSISTANT]
    messages = [
        Message(role=roles[n % 2], content=content, message_id=f"m{n}")
        for n, content in enumerate(contents)
    ]
    blocks = fields.pop("context_blocks", [])
    return SessionDocument(
        session=Session(session_id="s", messages=messages, **fields), context_blocks=blocks
    )


def block(name: str, kind: BlockType, content: str = "", **more: Any) -> ContextBlock:
    return ContextBlock(
        block_id=name, block_type=kind, priority=Priority.HIGH, content=content, **more
    )


@pytest.fixture
def deriver() -> BlockDeriver:
    return SessionDeriver(CharBasedEstimator())


@pytest.mark.req("A-10")
async def test_messages_become_conversation_whose_priority_falls_with_age(
    deriver: BlockDeriver,
) -> None:
    blocks = await deriver.derive(document("q1", "a1", "q2", "a2", "q3"), [])
    assert {b.block_type for b in blocks} == {BlockType.CONVERSATION}
    assert [(b.content, str(b.priority)) for b in blocks] == [
        ("q1", "medium"),
        ("a1", "medium"),
        ("q2", "high"),
        ("a2", "high"),
        ("q3", "must"),
    ]
    assert all(b.token_estimate > 0 for b in blocks)


@pytest.mark.req("A-10")
async def test_a_summary_takes_the_place_of_what_it_covers(deriver: BlockDeriver) -> None:
    covered = MessageIndexRange(from_index=0, to_index=1)
    summary = Summary(
        content="They greeted.", updated_at="2026-01-01T00:00:00Z", message_index_range=covered
    )
    first, *rest = await deriver.derive(document("hi", "hello", "q", summary=summary), [])
    assert (first.block_type, first.priority, first.content) == (
        BlockType.CONVERSATION,
        Priority.HIGH,
        "They greeted.",
    )
    assert [b.content for b in rest] == ["q"]


@pytest.mark.req("A-10")
async def test_evidence_is_worth_what_is_known_of_it_and_falls_with_age(
    deriver: BlockDeriver,
) -> None:
    given = [evidence("old", 0.9), evidence("worse", 0.5), evidence("new", 0.9), evidence("?")]
    blocks = await deriver.derive(document(), [*given, evidence("in a message", message_id="m1")])
    assert [(b.refs[0].evidence_id, str(b.priority)) for b in blocks] == [
        ("old", "medium"),
        ("worse", "low"),
        ("new", "high"),
        ("?", "medium"),
    ]
    assert {b.content for b in blocks} == {""}, "its text is resolved when it is rendered"


@pytest.mark.req("A-10", "A-25")
async def test_evidence_that_cannot_be_derived_is_skipped_and_told(deriver: BlockDeriver) -> None:
    failed: list[str] = []
    odd = evidence("odd", created_at=["no", "time"])
    options = DeriveOptions(on_error=lambda name, _: failed.append(name))
    blocks = await deriver.derive(document(), [evidence("a"), odd, evidence("b")], options)
    assert [b.refs[0].evidence_id for b in blocks] == ["a", "b"]
    assert failed == ["odd"]


@pytest.mark.req("A-10")
async def test_instructions_and_memory_come_along_and_parts_can_be_left_out(
    deriver: BlockDeriver,
) -> None:
    memory = block("m", BlockType.MEMORY, "Likes tea.")
    doc = document(
        "q", task_state=TaskState(todo_list=TodoList(tasks=TASKS)), context_blocks=[memory]
    )
    rule = block("r", BlockType.INSTRUCTION, "Be brief.")
    options = DeriveOptions(include_conversation=False, custom_instructions=[rule])
    found = await deriver.derive(doc, [evidence("a")], options)
    assert [str(b.block_type) for b in found] == ["instruction", "memory", "plan", "evidence"]
    assert found[:2] == [rule, memory]
    bare = DeriveOptions(include_state=False, include_evidences=False)
    found = await deriver.derive(doc, [evidence("a")], bare)
    assert [str(b.block_type) for b in found] == ["memory", "conversation"]


@pytest.mark.req("A-10")
def test_tasks_are_told_with_their_status_and_what_they_wait_for() -> None:
    assert task_list(TASKS, "en").splitlines() == [
        "## Tasks of this session",
        "1. [done] 收集数据",
        "2. [in progress] Write the report (after 1)",
        "3. [to do] Send it (after 1, 2)",
        "4. [failed] Pay: no money",
    ]
    assert task_list(TASKS[:2], "zh").splitlines() == [
        "## 本会话的任务",
        "1. [已完成] 收集数据",
        "2. [进行中] Write the report（在 1 之后）",
    ]
    assert task_list(TASKS[:1], "en") == "", "nothing is left to do"


# What the engine collects for a call


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def collected(engine: ContextEngine, *evidences: Evidence, scope: Scope = SCOPE) -> Collected:
    return engine.loop.run(engine._block_materials(scope, evidences))


@pytest.mark.req("A-10", "E-02")
def test_tasks_and_stored_blocks_become_materials_of_their_sections(engine: ContextEngine) -> None:
    assert collected(engine) == Collected()
    engine.sync.upsert_tasks(SCOPE, TASKS)
    kinds = dict(zip("imescp", BlockType, strict=True))
    blocks = [block(name, kind, f"text of {kind}") for name, kind in kinds.items()]
    engine.sync.put_context_blocks(SCOPE, blocks)
    found = collected(engine)
    assert {m.text: m.section for m in found.materials if m.source == "blocks"} == {
        "text of instruction": "framework__context",
        "text of memory": "experience__context",
        "text of state": "todo__context",
        "text of plan": "todo__context",
        "text of conversation": "compression__context",
    }
    [tasks] = [m for m in found.materials if m.source == "tasks"]
    assert tasks.section == "todo__context"
    assert "2. [in progress] Write the report (after 1)" in tasks.text
    [knowledge] = [m for m in found.materials if m.section == "knowledge__context"]
    assert knowledge.text == "text of evidence"
    assert collected(engine, scope=Scope(session_id="s", user_id="other")) == Collected()


@pytest.mark.req("A-10", "A-12")
def test_a_block_of_refs_alone_brings_what_they_point_to(engine: ContextEngine) -> None:
    source = EvidenceSource(kind=SourceKind.TOOL, name="t")
    kept = engine.sync.ingest(SCOPE, "one\ntwo\nthree", source, EvidenceType.TOOL_RESULT)
    ref = Ref(evidence_id=kept.evidence_id, selector="lines:2-3")
    engine.sync.put_context_blocks(SCOPE, [block("b", BlockType.EVIDENCE, refs=[ref])])
    [found] = collected(engine).materials
    assert (found.text, found.evidence_id) == ("two\nthree", kept.evidence_id)


@pytest.mark.req("A-25")
@pytest.mark.parametrize(
    ("ref", "code", "reason"),
    [
        (Ref(evidence_id="gone"), "CONTEXT_EVIDENCE_NOT_FOUND", "evidence_not_found"),
        (Ref(evidence_id="?", selector="lines:9-9"), "CONTEXT_SELECTOR_UNRESOLVED",
         "selector_resolve_failed"),
    ],
)  # fmt: skip
def test_a_ref_that_leads_nowhere_leaves_the_blocks_own_text(
    engine: ContextEngine, ref: Ref, code: str, reason: str
) -> None:
    source = EvidenceSource(kind=SourceKind.TOOL, name="t")
    kept = engine.sync.ingest(SCOPE, "one line", source, EvidenceType.TOOL_RESULT)
    ref.evidence_id = ref.evidence_id.replace("?", kept.evidence_id)
    blocks = [
        block("b1", BlockType.EVIDENCE, "in short: one", refs=[ref]),
        block("b2", BlockType.EVIDENCE, refs=[ref]),
    ]
    engine.sync.put_context_blocks(SCOPE, blocks)
    found = collected(engine)
    assert [m.text for m in found.materials] == ["in short: one"]
    assert [(d.code, d.of) for d in found.degradations] == [(code, "b1"), (code, "b2")]
    assert found.degradations[0].payload == {"code": code, "reason": reason, "of": "b1"}


@pytest.mark.req("A-25")
def test_what_was_degraded_is_an_event_and_a_line_in_the_report(engine: ContextEngine) -> None:
    engine.sync.put_context_blocks(
        SCOPE, [block("b", BlockType.EVIDENCE, "text", refs=[Ref(evidence_id="gone")])]
    )
    odd = evidence("odd", created_at=3)
    degradations = collected(engine, odd).degradations

    def tell(records: Any) -> None:
        for found in degradations:
            records.degrade(found)

    engine.loop.run(engine._record(SCOPE, tell, wait=True))
    codes = ["CONTEXT_DERIVE_FAILED", "CONTEXT_EVIDENCE_NOT_FOUND"]
    assert sorted(HostApp(engine, SCOPE).ask("q", "a").report.degradations) == codes
    engine.sync.flush()
    told = {e.payload.get("code"): e for e in engine.loop.run(engine.store.list_events(SCOPE))}
    assert told["CONTEXT_DERIVE_FAILED"].event_type == EventType.ERROR
    assert told["CONTEXT_DERIVE_FAILED"].payload["of"] == "odd"
    assert told["CONTEXT_EVIDENCE_NOT_FOUND"].event_type == EventType.DEGRADED


class Shouting:
    """A deriver of somebody else's: stored blocks in capitals."""

    async def derive(
        self, session_doc: SessionDocument, evidences: Sequence[Evidence], options: object = None
    ) -> list[ContextBlock]:
        if not session_doc.context_blocks:
            raise RuntimeError("nothing to shout")
        return [
            b.model_copy(update={"content": b.content.upper()}) for b in session_doc.context_blocks
        ]


@pytest.mark.req("A-26")
def test_the_deriver_can_be_exchanged_and_its_faults_cost_nothing_else() -> None:
    engine = create_context_engine(MemoryStore(), deriver=Shouting())
    engine.sync.upsert_tasks(SCOPE, TASKS)
    found = collected(engine)
    assert ([*found.materials], [d.code for d in found.degradations]) == (
        [],
        ["CONTEXT_DERIVE_FAILED"],
    )
    engine.sync.put_context_blocks(SCOPE, [block("b", BlockType.MEMORY, "likes tea")])
    assert [m.text for m in collected(engine).materials] == ["LIKES TEA"]
    engine.sync.close()


@pytest.mark.req("A-26", "A-25")
def test_a_renderer_that_fails_leaves_the_blocks_own_text() -> None:
    class Broken:
        async def render_block(self, *_: object) -> Any:
            raise RuntimeError

    engine = create_context_engine(MemoryStore(), renderer=Broken())
    engine.sync.put_context_blocks(SCOPE, [block("b", BlockType.MEMORY, "likes tea")])
    found = collected(engine)
    assert [m.text for m in found.materials] == ["likes tea"]
    assert [d.code for d in found.degradations] == ["CONTEXT_RENDER_FAILED"]
    engine.sync.close()


def test_a_store_that_is_down_is_a_warning() -> None:
    class Down(MemoryStore):
        async def list_tasks(self, scope: Scope) -> list[Task]:
            raise StoreUnavailableError("down")

    engine = create_context_engine(Down())
    assert collected(engine) == Collected(warnings=["CONTEXT_STORE_UNAVAILABLE"])
    engine.sync.close()
