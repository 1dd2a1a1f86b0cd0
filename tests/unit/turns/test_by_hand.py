"""The engine without a framework: a question in, an input out, an answer back (A-13, A-14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    Event,
    EventType,
    Evidence,
    EvidenceNotFoundError,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    PrepareResult,
    Ref,
    Role,
    RuntimeConfig,
    SchemaValidationError,
    Scope,
    SessionDocument,
    SourceKind,
    StoreConfig,
    ToolRequest,
    TurnAmbiguousError,
    Usage,
    create_context_engine,
)


def engine_on(url: str | None = None) -> ContextEngine:
    store = url if url is not None else MemoryStore()
    patient = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault
    return create_context_engine(store, token_estimator=CharBasedEstimator(), config=patient)


@pytest.fixture
async def engine() -> AsyncIterator[ContextEngine]:
    made = engine_on()
    yield made
    await made.close()


@pytest.fixture(params=["memory://", "file:{}/sessions", "sqlite:///{}/ce.db"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


def user(text: str) -> Message:
    return Message(role=Role.USER, content=text)


def answer(text: str, **more: object) -> Message:
    return Message.model_validate({"role": "assistant", "content": text, **more})


def said(result: PrepareResult) -> list[tuple[str, str]]:
    return [(str(part.role), part.content) for part in result.assembled_input.parts]


async def document(engine: ContextEngine, session: str = "s1") -> SessionDocument:
    await engine.flush()
    found = await engine.store.get_session(Scope(session_id=session))
    assert found is not None
    return found


async def fact(engine: ContextEngine, text: str, name: str = "kb") -> Evidence:
    return await engine.record_evidence(
        Scope(session_id="s1"),
        text,
        EvidenceSource(kind=SourceKind.RAG, name=name),
        EvidenceType.RAG_DOC,
    )


@pytest.mark.req("A-13", "A-07")
async def test_turns_follow_each_other_on_every_store(url: str) -> None:
    engine = engine_on(url)
    try:
        first = await engine.prepare_turn("s1", user("My name is 王芳."))
        assert said(first) == [("user", "My name is 王芳.")]
        put = await engine.commit_assistant_message("s1", answer("Hello 王芳."))
        assert put.success
        assert first.session_version is not None
        assert put.version > first.session_version
        second = await engine.prepare_turn("s1", user("Who am I?"))
        assert said(second) == [
            ("user", "My name is 王芳."),
            ("assistant", "Hello 王芳."),
            ("user", "Who am I?"),
        ]
        await engine.commit_assistant_message("s1", answer("王芳."))
        stored = [(m.role.value, m.content) for m in (await document(engine)).session.messages]
        assert stored == [*said(second), ("assistant", "王芳.")]
    finally:
        await engine.close()


@pytest.mark.req("A-13")
async def test_another_process_goes_on_where_the_first_one_stopped(tmp_path: Path) -> None:
    for n in range(3):
        engine = engine_on(f"sqlite:///{tmp_path}/ce.db")
        result = await engine.prepare_turn("s1", user(f"question {n}"))
        assert len(said(result)) == 2 * n + 1
        await engine.commit_assistant_message("s1", answer(f"answer {n}"))
        await engine.close()


@pytest.mark.req("A-13")
async def test_a_system_prompt_goes_first_and_is_not_stored(engine: ContextEngine) -> None:
    system = Message(role=Role.SYSTEM, content="You are terse.")
    for n in range(2):
        result = await engine.prepare_turn("s1", [system, user(f"q{n}")])
        await engine.commit_assistant_message("s1", answer(f"a{n}"))
        assert said(result)[0] == ("system", "You are terse.")
    assert [m.role for m in (await document(engine)).session.messages].count(Role.SYSTEM) == 0


@pytest.mark.req("A-12", "A-13")
async def test_the_input_as_one_text(engine: ContextEngine) -> None:
    await engine.prepare_turn("s1", user("你好"))
    await engine.commit_assistant_message("s1", answer("Hello."))
    result = await engine.prepare_turn("s1", user("Bye"), text=True)
    text = result.assembled_input.text
    assert text == "user: 你好\n\nassistant: Hello.\n\nuser: Bye"
    assert CharBasedEstimator().estimate_text(text) <= result.assembled_input.total_tokens


@pytest.mark.req("A-13", "A-17")
async def test_the_default_budget_holds_and_history_gives_way(engine: ContextEngine) -> None:
    for n in range(30):
        await engine.prepare_turn("s1", user(f"question {n} " + "word " * 100))
        await engine.commit_assistant_message("s1", answer(f"answer {n} " + "word " * 100))
    result = await engine.prepare_turn("s1", user("and now?"))
    assert result.report.token_budget == 8192 - 1024
    assert result.assembled_input.total_tokens <= 8192 - 1024
    assert said(result)[-1] == ("user", "and now?")
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=600, reserved_reply_tokens=0))
    await engine.fail_turn("s1", "not asked")
    small = await engine.prepare_turn("s1", user("and now, shorter?"), config)
    assert small.assembled_input.total_tokens <= 600


@pytest.mark.req("A-13", "A-10")
async def test_evidence_goes_in_with_its_id_and_is_what_the_answer_rests_on(
    engine: ContextEngine,
) -> None:
    found = await fact(engine, "The warehouse opens at 7:30.", "handbook")
    result = await engine.prepare_turn("s1", user("When does it open?"))
    role, text = said(result)[0]
    assert role == "user", "what was found is no instruction"
    assert "The warehouse opens at 7:30." in text
    assert found.evidence_id[:8] in text
    await engine.commit_assistant_message("s1", answer("At 7:30."))
    stored = (await document(engine)).session.messages[-1]
    assert [ref.evidence_id for ref in stored.refs or ()] == [found.evidence_id]


async def test_what_is_relevant_goes_first_where_evidence_is_too_much(
    engine: ContextEngine,
) -> None:
    for n in range(60):
        await fact(engine, f"Item {n} of the list is a lamp of {n} watts, sold in store {n}.")
    wanted = await fact(engine, "The gate code of the north warehouse is 7391.")
    for n in range(60, 90):
        await fact(engine, f"Item {n} of the list is a lamp of {n} watts, sold in store {n}.")
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=500, reserved_reply_tokens=0))
    result = await engine.prepare_turn("s1", user("What is the gate code?"), config)
    assert "7391" in said(result)[0][1]
    assert wanted.evidence_id in result.report.injected_evidence_ids
    assert result.assembled_input.total_tokens <= 500


@pytest.mark.req("A-13", "A-02")
async def test_refs_of_the_caller_are_kept_and_must_lead_somewhere(engine: ContextEngine) -> None:
    first = await fact(engine, "one: apples", "a")
    await fact(engine, "two: pears", "b")
    await engine.prepare_turn("s1", user("apples or pears?"))
    with pytest.raises(EvidenceNotFoundError, match="nowhere"):
        await engine.commit_assistant_message("s1", answer("?"), [Ref(evidence_id="nowhere")])
    ref = Ref(evidence_id=first.evidence_id, selector="chars:0-3")
    await engine.commit_assistant_message("s1", answer("apples"), [ref])
    assert (await document(engine)).session.messages[-1].refs == [ref]


@pytest.mark.req("A-13")
async def test_a_tool_loop_by_hand(engine: ContextEngine) -> None:
    await engine.prepare_turn("s1", user("earlier"))
    await engine.commit_assistant_message("s1", answer("ok"))
    asked = await engine.prepare_turn("s1", user("Weather in Oslo and Rome?"))
    calls = [
        ToolRequest(id="call_0", name="weather", args={"city": "Oslo"}),
        ToolRequest(id="call_1", name="weather", args={"city": "Rome"}),
    ]
    await engine.commit_assistant_message("s1", answer("", tool_calls=calls))
    results = [
        Message(role=Role.TOOL, content=f"{n} degrees", tool_call_id=f"call_{n}") for n in (0, 1)
    ]
    step = await engine.prepare_turn("s1", results)
    parts = step.assembled_input.parts
    assert [part.role.value for part in parts] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    assert [call.id for call in parts[3].tool_calls or ()] == ["call_0", "call_1"]
    assert [part.tool_call_id for part in parts[4:]] == ["call_0", "call_1"]
    await engine.commit_assistant_message("s1", answer("0 and 1 degrees."))
    stored = await document(engine)
    assert [m.content for m in stored.session.messages][2:] == [
        "Weather in Oslo and Rome?",
        "",
        "0 degrees",
        "1 degrees",
        "0 and 1 degrees.",
    ]
    assert [call.tool for call in stored.session.tool_state.tool_calls] == ["weather"] * 2
    assert asked.report.turn_id != step.report.turn_id
    after = await engine.prepare_turn("s1", user("thanks"))
    assert "0 and 1 degrees." in [text for _, text in said(after)]


@pytest.mark.req("A-19")
async def test_what_goes_on_has_live_values_and_the_store_has_not(engine: ContextEngine) -> None:
    await engine.prepare_turn("s1", user("Mail ann@example.org about it"))
    call = ToolRequest(id="c", name="mail", args={"to": ["ann@example.org"], "n": 1})
    await engine.commit_assistant_message("s1", answer("To ann@example.org.", tool_calls=[call]))
    step = await engine.prepare_turn("s1", Message(role=Role.TOOL, content="ok", tool_call_id="c"))
    parts = step.assembled_input.parts
    assert [p.content for p in parts][:2] == [
        "Mail ann@example.org about it",
        "To ann@example.org.",
    ]
    assert parts[1].tool_calls == [call]
    assert "ann@example.org" not in (await document(engine)).model_dump_json()


async def test_a_result_that_nobody_asked_for_is_refused_with_the_cure(
    engine: ContextEngine,
) -> None:
    lost = Message(role=Role.TOOL, content="?", tool_call_id="call_9")
    with pytest.raises(SchemaValidationError, match="call_9"):
        await engine.prepare_turn("s1", lost)
    with pytest.raises(SchemaValidationError, match="user's message"):
        await engine.prepare_turn("s1", [])
    with pytest.raises(SchemaValidationError, match="assistant"):
        await engine.commit_assistant_message("s1", user("hi"))


@pytest.mark.req("A-14")
async def test_chunks_are_joined_in_order_of_index(engine: ContextEngine) -> None:
    heard: list[tuple[int, int]] = []
    all_heard = anyio.Event()

    async def hear(event: Event) -> None:
        heard.append((event.payload["index"], event.payload["length"]))
        if len(heard) == 3:
            loop.call_soon_threadsafe(all_heard.set)  # handlers run on the engine's own thread

    loop = asyncio.get_running_loop()
    engine.bus.on(EventType.ASSISTANT_CHUNK_RECEIVED, hear)
    await engine.prepare_turn("s1", user("count"))
    for index, text in ((2, "三"), (0, "one "), (1, "two ")):
        await engine.commit_assistant_chunk("s1", text, index)
    put = await engine.finalize_assistant_message("s1", usage=Usage(10, 3))
    assert put.success
    stored = await document(engine)
    assert stored.session.messages[-1].content == "one two 三"
    assert stored.session.model_usage[0].completion_tokens == 3
    with anyio.fail_after(10):
        await all_heard.wait()
    assert sorted(heard) == [(0, 4), (1, 4), (2, 1)]


@pytest.mark.req("A-14", "A-15")
async def test_streams_side_by_side_in_one_session_never_mix(engine: ContextEngine) -> None:
    async def stream(n: int) -> None:
        turn = (await engine.prepare_turn("s1", user(f"question {n}"))).report.turn_id
        for index in range(10):
            await engine.commit_assistant_chunk("s1", f"{n}.{index} ", index, turn_id=turn)
            await asyncio.sleep(0)
        await engine.finalize_assistant_message("s1", turn_id=turn)

    await asyncio.gather(*(stream(n) for n in range(8)))
    messages = (await document(engine)).session.messages
    by_id = {m.message_id: m for m in messages}
    answers = [m for m in messages if m.role is Role.ASSISTANT]
    assert len(answers) == 8
    for message in answers:
        asked = by_id[message.parent_id].content.removeprefix("question ")
        assert message.content == "".join(f"{asked}.{index} " for index in range(10))


@pytest.mark.req("A-14")
async def test_an_open_turn_among_several_must_be_named(engine: ContextEngine) -> None:
    with pytest.raises(TurnAmbiguousError, match="0 turns"):
        await engine.commit_assistant_message("s1", answer("?"))
    one = await engine.prepare_turn("s1", user("one"))
    two = await engine.prepare_turn("s1", user("two"))
    with pytest.raises(TurnAmbiguousError, match="turn_id"):
        await engine.commit_assistant_chunk("s1", "x", 0)
    with pytest.raises(SchemaValidationError, match="-1"):
        await engine.commit_assistant_chunk("s1", "x", -1, turn_id=one.report.turn_id)
    await engine.commit_assistant_message("s1", answer("1"), turn_id=one.report.turn_id)
    with pytest.raises(TurnAmbiguousError, match="closed"):
        await engine.commit_assistant_message("s1", answer("1"), turn_id=one.report.turn_id)
    await engine.commit_assistant_message("s1", answer("2"))
    assert two.report.turn_id != one.report.turn_id


@pytest.mark.req("A-14")
async def test_a_stream_that_broke_off_is_kept_and_not_sent_again(engine: ContextEngine) -> None:
    await engine.prepare_turn("s1", user("tell me"))
    await engine.commit_assistant_chunk("s1", "Once upon", 0)
    await engine.finalize_assistant_message("s1", complete=False)
    assert (await document(engine)).session.messages[-1].status == "incomplete"
    again = await engine.prepare_turn("s1", user("from the start, please"))
    assert said(again) == [("user", "from the start, please")]


@pytest.mark.req("B-07")
async def test_a_repeated_call_appends_nothing_twice(engine: ContextEngine) -> None:
    question = Message(role=Role.USER, content="yes", message_id="mine-1")
    await engine.prepare_turn("s1", question)
    await engine.fail_turn("s1", "timeout")
    await engine.prepare_turn("s1", question)
    await engine.commit_assistant_message("s1", answer("fine"))
    await engine.prepare_turn("s1", user("yes"))
    contents = [m.content for m in (await document(engine)).session.messages]
    assert contents == ["yes", "fine", "yes"]


async def test_two_users_with_one_session_id_are_two_conversations(engine: ContextEngine) -> None:
    for name in ("ann", "bob"):
        scope = Scope(session_id="s1", user_id=name)
        await engine.prepare_turn(scope, user(f"I am {name}"))
        await engine.commit_assistant_message(scope, answer(f"Hi {name}"))
    result = await engine.prepare_turn(Scope(session_id="s1", user_id="ann"), user("Who?"))
    assert "bob" not in str(said(result))


def test_the_same_without_await() -> None:
    def turns(engine: ContextEngine) -> Iterator[PrepareResult]:
        yield engine.sync.prepare_turn("s1", user("hello"))
        engine.sync.commit_assistant_chunk("s1", "hi", 0)
        engine.sync.finalize_assistant_message("s1")
        yield engine.sync.prepare_turn("s1", user("more"))
        engine.sync.fail_turn("s1", "timeout")

    engine = engine_on()
    first, second = turns(engine)
    assert first.assembled_input.total_tokens > 0
    assert first.report.errors == []
    assert len(second.assembled_input.parts) == 3
    engine.sync.close()
