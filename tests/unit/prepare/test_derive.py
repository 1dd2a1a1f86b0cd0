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
    PrepareResult,
    Priority,
    Ref,
    Role,
    RuntimeConfig,
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
from ce_engine.prepare.blocks.derive_session import task_list
from ce_engine.schema.degradation import Degradation
from ce_engine.schema.document import MessageIndexRange, Summary, TaskState, TodoList
from ce_engine.schema.events import EventType
from ce_engine.testing.host import HostApp, assistant, tool_calls, tool_result, user
from ce_engine.turns.input.session_blocks import block_materials
from tests.unit.prepare.test_render_block import Texts


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
        "Tasks:",
        "1. [done] 收集数据",
        "2. [in progress] Write the report (after 1)",
        "3. [to do] Send it (after 1, 2)",
        "4. [failed] Pay: no money",
    ]
    assert task_list(TASKS[:2], "zh").splitlines() == [
        "任务：",
        "1. [已完成] 收集数据",
        "2. [进行中] Write the report（在 1 之后）",
    ]
    assert task_list(TASKS[:1], "en") == "", "nothing is left to do"


# What goes into a call


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def asked(
    engine: ContextEngine,
    question: str = "well?",
    scope: Scope = SCOPE,
    config: RuntimeConfig | None = None,
) -> PrepareResult:
    return engine.sync.prepare_turn(scope, Message(role=Role.USER, content=question), config)


def system_text(result: PrepareResult) -> str:
    """What was put in before the question."""
    *before, question = result.assembled_input.parts
    assert question.role is Role.USER
    return "\n".join([*(part.content for part in before), question.content.rpartition("\n\n")[0]])


def answer(engine: ContextEngine, scope: Scope = SCOPE) -> None:
    engine.sync.commit_assistant_message(scope, Message(role=Role.ASSISTANT, content="ok"))


def keep(engine: ContextEngine, *blocks: ContextBlock) -> None:
    engine.sync.put_context_blocks(SCOPE, blocks)


@pytest.mark.req("A-10", "E-02", "E-03")
def test_tasks_and_kept_blocks_go_into_the_sections_of_the_next_call(engine: ContextEngine) -> None:
    assert system_text(asked(engine)) == ""
    answer(engine)
    engine.sync.upsert_tasks(SCOPE, TASKS)
    keep(engine, *(block(f"b-{kind}", kind, f"text of {kind}") for kind in BlockType))
    text = system_text(asked(engine, config=RuntimeConfig(placement="seed")))
    wanted = [
        "text of instruction",
        "text of memory",
        "text of evidence",
        "text of state",
        "text of plan",
        "2. [in progress] Write the report (after 1)",
        "text of conversation",
    ]
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)
    other = asked(engine, scope=Scope(session_id="s", user_id="other"))
    assert system_text(other) == ""


@pytest.mark.req("A-10")
def test_what_changes_goes_out_with_the_very_next_call(engine: ContextEngine) -> None:
    keep(engine, block("b", BlockType.MEMORY, "likes tea"))
    assert "likes tea" in system_text(asked(engine))
    answer(engine)
    keep(engine, block("b", BlockType.MEMORY, "likes mate"))
    text = system_text(asked(engine))
    assert "likes mate" in text
    assert "likes tea" not in text
    answer(engine)
    other = create_context_engine(engine.store)  # another process
    other.sync.upsert_tasks(SCOPE, TASKS)
    assert "Write the report" in system_text(asked(engine))
    other.loop.close()


@pytest.mark.req("A-10")
def test_a_host_that_keeps_its_messages_gets_them_too(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    assert app.ask("one?", "1").unchanged
    engine.sync.upsert_tasks(SCOPE, TASKS)
    prepared = app.ask("two?", "2")
    assert "Write the report" in prepared.assembled.parts[-1].content
    done = [task.model_copy(update={"status": TaskStatus.COMPLETED}) for task in TASKS]
    engine.sync.upsert_tasks(SCOPE, done)
    assert app.ask("three?", "3").unchanged


@pytest.mark.req("A-10", "A-12")
def test_a_block_of_refs_alone_brings_what_they_point_to(engine: ContextEngine) -> None:
    source = EvidenceSource(kind=SourceKind.TOOL, name="t")
    kept = engine.sync.ingest(SCOPE, "one\ntwo\nthree", source, EvidenceType.TOOL_RESULT)
    ref = Ref(evidence_id=kept.evidence_id, selector="lines:2-3")
    keep(engine, block("b", BlockType.STATE, refs=[ref]))
    assert "|# State\n| two\n|  three" in system_text(asked(engine))
    answer(engine)
    engine.sync.delete_evidence(SCOPE, kept.evidence_id)
    assert "two" not in system_text(asked(engine))


@pytest.mark.req("A-12")
def test_a_ref_may_lead_to_what_stands_in_a_message(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    app.commit(app.prepare(user("read it")), tool_calls(("c1", "read", {})))
    app.commit(app.prepare(tool_result("c1", "first\nsecond"), new_request=False), assistant("ok"))
    engine.sync.flush()
    [evidence_id] = [
        item.evidence_id
        for item in engine.loop.run(engine.store.list_evidences(SCOPE))
        if item.type is EvidenceType.TOOL_RESULT
    ]
    ref = Ref(evidence_id=evidence_id, selector="lines:2-2")
    keep(engine, block("b", BlockType.STATE, refs=[ref]))
    assert "|# State\n| second" in app.ask("and?", "ok").assembled.parts[-1].content


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
    ref = ref.model_copy(update={"evidence_id": ref.evidence_id.replace("?", kept.evidence_id)})
    keep(
        engine,
        block("b1", BlockType.STATE, "in short: one", refs=[ref]),
        block("b2", BlockType.STATE, refs=[ref]),
    )
    result = asked(engine)
    assert "|# State\n| in short: one" in system_text(result)
    assert result.report.degradations == [code]
    engine.sync.flush()
    events = engine.loop.run(engine.store.list_events(SCOPE))
    told = [event.payload for event in events if event.event_type == EventType.DEGRADED]
    assert told == [{"code": code, "reason": reason, "of": name} for name in ("b1", "b2")]


class Shouting:
    """A deriver of somebody else's: kept blocks in capitals."""

    async def derive(
        self, session_doc: SessionDocument, evidences: Sequence[Evidence], options: object = None
    ) -> list[ContextBlock]:
        if session_doc.session.task_state.todo_list.tasks:
            raise RuntimeError("no tasks, please")
        return [
            b.model_copy(update={"content": b.content.upper()}) for b in session_doc.context_blocks
        ]


@pytest.mark.req("A-26", "A-25")
def test_the_deriver_can_be_exchanged_and_its_faults_cost_nothing_else() -> None:
    engine = create_context_engine(MemoryStore(), deriver=Shouting())
    keep(engine, block("b", BlockType.MEMORY, "likes tea"))
    assert "LIKES TEA" in system_text(asked(engine))
    answer(engine)
    engine.sync.upsert_tasks(SCOPE, TASKS)
    failed = asked(engine)
    assert "likes tea" in system_text(failed)
    assert failed.report.degradations == ["CONTEXT_DERIVE_FAILED"]
    engine.sync.flush()
    events = engine.loop.run(engine.store.list_events(SCOPE))
    [error] = [event for event in events if event.event_type == EventType.ERROR]
    assert error.payload == {"code": "CONTEXT_DERIVE_FAILED", "reason": "derive_failed"}
    engine.sync.close()


@pytest.mark.req("A-26", "A-25")
def test_a_renderer_that_fails_leaves_the_blocks_own_text() -> None:
    class Broken:
        async def render_block(self, *_: object) -> Any:
            raise RuntimeError

    engine = create_context_engine(MemoryStore(), renderer=Broken())
    keep(engine, block("b", BlockType.MEMORY, "likes tea"))
    result = asked(engine)
    assert "likes tea" in system_text(result)
    assert result.report.degradations == ["CONTEXT_RENDER_FAILED"]
    engine.sync.close()


@pytest.mark.req("A-25", "A-10")
async def test_one_odd_piece_of_evidence_costs_only_itself(engine: ContextEngine) -> None:
    one, odd = evidence("one", 0.9), evidence("odd", created_at=3)
    found = await block_materials(
        document(),
        deriver=engine.deriver,
        renderer=engine.renderer,
        resolver=Texts(one=one.content, odd=odd.content),
        evidences=[one, odd],
    )
    assert [(m.text, m.section, m.score) for m in found.materials] == [
        ("What one says.", "knowledge__context", 0.9)
    ]
    assert found.degradations == [Degradation("CONTEXT_DERIVE_FAILED", "odd")]
    assert found.degradations[0].event_type == EventType.ERROR


def test_what_cannot_be_read_is_a_warning_and_the_call_goes_on() -> None:
    class Down(MemoryStore):
        async def list_tasks(self, scope: Scope) -> list[Task]:
            raise StoreUnavailableError("down")

    store = Down()
    before = create_context_engine(store)
    asked(before)  # a session that is new has no tasks to ask for
    assert before.sync.flush()
    engine = create_context_engine(store)
    result = asked(engine)
    before.sync.close()
    assert result.assembled_input.parts[-1].content == "well?"
    assert "CONTEXT_STORE_UNAVAILABLE" in result.report.warnings
    engine.sync.close()
