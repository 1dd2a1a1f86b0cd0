"""A history that was kept elsewhere comes in once, whole, and is found (decision 4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ce_engine import (
    Answer,
    Attachment,
    Author,
    AuthorKind,
    BudgetConfig,
    ContextEngine,
    HostMessage,
    MemoryStore,
    Message,
    ModelCall,
    Origin,
    PutResult,
    Role,
    RuntimeConfig,
    SchemaValidationError,
    Scope,
    StoreConfig,
    StoreUnavailableError,
    ToolRequest,
    create_context_engine,
    open_store,
)
from ce_engine.schema.rows import AppendMessages, MessageRow, Write
from ce_engine.turns.record.import_history import AT_ONCE, ORIGINS


SCOPE = Scope(session_id="s", user_id="u")


@pytest.fixture(params=["memory", "sqlite", "file"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ContextEngine]:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/ce.db"}
    config = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault here
    made = create_context_engine(
        open_store(urls.get(request.param, f"file://{tmp_path}/ce")), config=config
    )
    yield made
    await made.close()


def talk(turns: int) -> list[Message]:
    return [
        Message(role=role, content=text)
        for n in range(turns)
        for role, text in (
            (Role.USER, f"Question {n}: where is number {n}?"),
            (Role.ASSISTANT, f"Number {n} is in drawer {7 * n}."),
        )
    ]


async def rows(engine: ContextEngine, scope: Scope = SCOPE) -> Sequence[MessageRow]:
    state = await engine.store.state(scope)
    return state.rows if state is not None else []


async def test_a_list_is_stored_once_in_its_order_however_often_it_is_imported(
    engine: ContextEngine,
) -> None:
    said = talk(3)
    first = await engine.import_session(SCOPE, said)
    again = await engine.import_session(SCOPE, [m.model_copy() for m in said])
    longer = await engine.import_session(SCOPE, [*said, *talk(4)[6:]])
    assert (first.new, first.known) == (6, 0)
    assert (again.new, again.known) == (0, 6)
    assert (longer.new, longer.known) == (2, 6)
    assert [row.message.content for row in await rows(engine)] == [m.content for m in talk(4)]
    assert longer.session_version == (await engine.store.version(SCOPE)).version


async def test_another_process_recognises_it(tmp_path: Path) -> None:
    for new in (6, 0):
        engine = create_context_engine(open_store(f"sqlite:///{tmp_path}/ce.db"))
        assert (await engine.import_session(SCOPE, talk(3))).new == new
        await engine.close()


@pytest.mark.parametrize("last", [Role.USER, Role.ASSISTANT])
async def test_one_message_is_stored_once_also_when_it_was_answered_since(last: Role) -> None:
    engine = create_context_engine(MemoryStore())
    alone = [Message(role=last, content="你好")]
    await engine.import_session(SCOPE, alone)
    if last is Role.USER:
        turn = await engine.prepare_turn(SCOPE, alone)
        answer = Message(role=Role.ASSISTANT, content="Hello.")
        await engine.commit_assistant_message(SCOPE, answer, turn_id=turn.report.turn_id)
    before = len(await rows(engine))
    assert (await engine.import_session(SCOPE, alone)).new == 0
    assert len(await rows(engine)) == before
    await engine.close()


async def test_times_authors_calls_results_and_pictures_come_with_it(engine: ContextEngine) -> None:
    picture = Attachment("image", "png", width=640, height=480, digest="d")
    asked = [ToolRequest(name="find", id="call_1", args={"q": "Ann, ann@example.com"})]
    said: list[Message | HostMessage] = [
        Message(role=Role.SYSTEM, content="You help."),
        Message(
            role=Role.USER,
            content="Who is it?",
            author=Author(kind=AuthorKind.USER, id="Bob"),
            at="2026-05-08T15:56:00+02:00",
        ),
        HostMessage(
            Message(role=Role.USER, content="This one."),
            Origin.TASK,
            media=("d",),
            attachments=(picture,),
        ),
        Message(role=Role.ASSISTANT, content="", tool_calls=asked),
        Message(role=Role.TOOL, content="not there", tool_call_id="call_1", status="error"),
    ]
    done = await engine.import_session(SCOPE, said, framework="openai")
    assert (done.new, done.system) == (4, 1)
    who, shown, call, result = await rows(engine)
    assert who.message.at == "2026-05-08T13:56:00.000Z"
    assert who.message.author == Author(kind=AuthorKind.USER, id="Bob")
    assert shown.message.attachments is not None
    assert shown.message.attachments[0].label() == "[image 640x480, png]"
    assert call.message.tool_calls is not None
    assert call.message.tool_calls[0].args == {"q": "Ann, [EMAIL_1]"}  # nothing unredacted
    assert (result.message.status, result.message.parent_id) == ("error", call.message.message_id)
    assert {row.framework for row in (who, shown, call, result)} == {"openai"}
    document = await engine.store.get_session(SCOPE)
    assert document is not None
    (made,) = document.session.tool_state.tool_calls
    assert (made.tool, made.status) == ("find", "error")


async def test_results_that_answer_nothing_are_left_out_and_told(engine: ContextEngine) -> None:
    asked = [ToolRequest(name="find", id="a")]
    said = [
        Message(role=Role.TOOL, content="from before the window", tool_call_id="gone"),
        Message(role=Role.USER, content="Find it."),
        Message(role=Role.ASSISTANT, content="", tool_calls=asked),
        Message(role=Role.TOOL, content="here", tool_call_id="a"),
        Message(role=Role.TOOL, content="here", tool_call_id="a"),
        Message(role=Role.ASSISTANT, content="It is here."),
    ]
    done = await engine.import_session(SCOPE, said)
    assert [line.partition(" is left out")[0] for line in done.repairs] == [
        "message 0",
        "message 4",
    ]
    assert "'gone'" in done.repairs[0]
    stored = [row.message.content for row in await rows(engine)]
    assert stored == ["Find it.", "", "here", "It is here."]
    assert (await engine.import_session(SCOPE, said)).new == 0


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ([], "hand over the user's"),
        ([Message(role=Role.SYSTEM, content="You help.")], "hand over the user's"),
        (
            [*talk(1), Message(role=Role.USER, content="?", at="yesterday")],
            r"messages\[2\].at is no time in ISO 8601: write it as",
        ),
    ],
)
async def test_what_cannot_be_taken_is_refused_and_nothing_is_stored(
    engine: ContextEngine, said: list[Message], cure: str
) -> None:
    with pytest.raises(SchemaValidationError, match=cure):
        await engine.import_session(SCOPE, said)
    assert await rows(engine) == []


async def test_what_was_imported_is_found_by_hand(engine: ContextEngine) -> None:
    await engine.import_session(SCOPE, talk(400))
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=600, reserved_reply_tokens=0))
    asked = Message(role=Role.USER, content="In which drawer is number 13?")
    found = await engine.prepare_turn(SCOPE, asked, config)
    assert "drawer 91." in "\n".join(part.content for part in found.assembled_input.parts)


async def test_progress_is_told_and_other_sessions_go_on() -> None:
    engine = create_context_engine(MemoryStore())
    told: list[int] = []
    done = await engine.import_session(SCOPE, talk(650), progress=told.append)
    assert (done.new, told) == (1300, [500, 1000, 1300])
    assert (await engine.import_session(SCOPE, talk(650))).new == 0
    await engine.close()


class Slow(MemoryStore):
    """Takes its time for what is large, as a disk does."""

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        if any(isinstance(write, AppendMessages) and len(write.rows) > 100 for write in writes):
            await asyncio.sleep(0.2)  # a megabyte and more
        return await super().apply(scope, writes, expected_version=expected_version)


async def test_a_store_that_writes_a_whole_history_is_not_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = RuntimeConfig(store=StoreConfig(deadline_s=0.05))
    engine = create_context_engine(Slow(), config=config)
    said = [HostMessage(m, ORIGINS[m.role]) for m in talk(500)]
    call = ModelCall(SCOPE, [*said, HostMessage(talk(1)[0], Origin.TASK)])
    with caplog.at_level(logging.WARNING):
        turn = (await engine.prepare(call)).turn
        await engine.commit(turn, Answer(Message(role=Role.ASSISTANT, content="Yes.")))
    assert not caplog.records
    stored = await rows(engine)
    assert (len(stored), any(row.late for row in stored)) == (1002, False)
    await engine.close()


class Full(MemoryStore):
    """Has no room after so many groups."""

    groups = 2

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        self.groups -= 1
        if self.groups < 0:
            raise StoreUnavailableError("the disk is full")
        return await super().apply(scope, writes, expected_version=expected_version)


async def test_what_a_store_did_not_take_comes_with_the_next_import() -> None:
    store = Full()
    engine = create_context_engine(store, config=RuntimeConfig(store=StoreConfig(breaker_s=0)))
    with pytest.raises(StoreUnavailableError, match="Import the same list again"):
        await engine.import_session(SCOPE, talk(800))
    store.groups = 1000
    assert await engine.flush()
    await engine.import_session(SCOPE, talk(800))
    assert [row.message.content for row in await rows(engine)] == [m.content for m in talk(800)]
    await engine.close()


async def test_a_short_answer_that_is_given_again_loses_nothing_of_a_long_list(
    engine: ContextEngine,
) -> None:
    said = talk(AT_ONCE // 2 + 10)
    for place in (21, AT_ONCE + 11):
        said[place] = Message(role=Role.ASSISTANT, content="You are welcome.")
    await engine.import_session("s", said)
    limits = BudgetConfig(max_input_tokens=600, reserved_reply_tokens=0)
    asked = Message(role=Role.USER, content="Which drawer has number 123?")
    made = await engine.prepare_turn("s", asked, RuntimeConfig(budget=limits))
    assert "Number 123 is in drawer 861." in str(made.assembled_input)
