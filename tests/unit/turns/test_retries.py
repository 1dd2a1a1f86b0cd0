"""A call that is repeated after its commit appends nothing twice (B-07)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    Answer,
    CharBasedEstimator,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    HostMessage,
    Message,
    ModelCall,
    ModelUsage,
    Origin,
    ProviderKind,
    Retrieval,
    RetrievedDoc,
    Role,
    Scope,
    SourceKind,
    ToolCall,
    ToolProvider,
    ToolRequest,
    ToolRun,
    create_context_engine,
)


URLS = ["memory://", "file:{}/sessions", "sqlite:///{}/ce.db"]


def engine_on(url: str) -> ContextEngine:
    return create_context_engine(url, token_estimator=CharBasedEstimator())


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(tmp_path)


def user(text: str, **more: Any) -> Message:
    return Message(role=Role.USER, content=text, **more)


def answer(text: str, **more: Any) -> Message:
    return Message(role=Role.ASSISTANT, content=text, **more)


async def messages(engine: ContextEngine) -> list[str]:
    document = await engine.get_session("s")
    assert document is not None
    return [message.content for message in document.session.messages]


@pytest.mark.req("B-07")
@pytest.mark.parametrize("again_in", ["the same process", "another process"])
async def test_a_request_that_is_repeated_is_stored_once(url: str, again_in: str) -> None:
    engine = engine_on(url)
    for n in range(3):
        asked = await engine.prepare_turn("s", user("几点开门？"), request_id="r1")
        assert [part.content for part in asked.assembled_input.parts] == ["几点开门？"]
        await engine.commit_assistant_message("s", answer("七点半。"))
        if again_in == "another process" and not url.startswith("memory:"):
            await engine.close()
            engine = engine_on(url)
        assert await messages(engine) == ["几点开门？", "七点半。"], n
    after = await engine.prepare_turn("s", user("And now?"), request_id="r2")
    said = [part.content for part in after.assembled_input.parts]
    assert said == ["几点开门？", "七点半。", "And now?"]
    outputs = [e for e in await engine.list_evidences("s") if e.type is EvidenceType.LLM_OUTPUT]
    assert len(outputs) == 1
    await engine.close()


@pytest.mark.req("B-07")
async def test_ids_of_ones_own_make_it_once_too(url: str) -> None:
    engine = engine_on(url)
    for _ in range(3):
        await engine.prepare_turn("s", user("one?", message_id="q"))
        await engine.commit_assistant_message("s", answer("1", message_id="a"))
    assert await messages(engine) == ["one?", "1"]
    await engine.close()


@pytest.mark.req("B-07")
async def test_a_question_with_an_id_of_its_own_is_enough(url: str) -> None:
    engine = engine_on(url)
    for text in ("1", "1", "eins", "1", "eins"):
        await engine.prepare_turn("s", user("one?", message_id="q"))
        await engine.commit_assistant_message("s", answer(text))
    assert await messages(engine) == ["one?", "1", "eins"]
    for _ in range(2):  # without an id it is asked again
        await engine.prepare_turn("s", user("one?"))
        await engine.commit_assistant_message("s", answer("1"))
    assert await messages(engine) == ["one?", "1", "eins", "one?", "1", "one?", "1"]
    await engine.close()


@pytest.mark.req("B-07", "A-14")
async def test_a_stream_that_is_repeated(url: str) -> None:
    engine = engine_on(url)
    for _ in range(2):
        await engine.prepare_turn("s", user("one?"), request_id="r")
        for index, text in enumerate("uno"):
            await engine.commit_assistant_chunk("s", text, index)
        await engine.finalize_assistant_message("s")
    assert await messages(engine) == ["one?", "uno"]
    await engine.close()


@pytest.mark.req("B-07")
async def test_a_late_repetition_finds_its_place(url: str) -> None:
    engine = engine_on(url)
    inputs = []
    for request in ("r1", "r2", "r1"):
        asked = await engine.prepare_turn("s", user("yes"), request_id=request)
        inputs.append([part.content for part in asked.assembled_input.parts])
        await engine.commit_assistant_message("s", answer(f"answer to {request}"))
    assert inputs == [["yes"], ["yes", "answer to r1", "yes"], ["yes"]]
    stored = await messages(engine)
    assert stored == ["yes", "answer to r1", "yes", "answer to r2"], "two requests are two"
    await engine.close()


@pytest.mark.req("B-07")
async def test_another_answer_to_the_same_request_is_a_variant(url: str) -> None:
    engine = engine_on(url)
    for text in ("seven", "half past seven", "seven"):
        await engine.prepare_turn("s", user("When?"), request_id="r")
        await engine.commit_assistant_message("s", answer(text))
    assert await messages(engine) == ["When?", "seven", "half past seven"]
    document = await engine.get_session("s")
    assert document is not None
    _, first, second = document.session.messages
    assert second.variant_of == first.message_id
    await engine.close()


@pytest.mark.req("B-07")
@pytest.mark.parametrize(("request_id", "message_id"), [("r", None), ("", "q")])
async def test_a_tool_loop_that_is_repeated_whole(
    url: str, request_id: str, message_id: str | None
) -> None:
    engine = engine_on(url)
    call = ToolRequest(id="call_0", name="weather", args={"city": "Oslo"})
    question = user("Weather?", message_id=message_id)
    for _ in range(2):
        await engine.prepare_turn("s", question, request_id=request_id)
        await engine.commit_assistant_message("s", answer("", tool_calls=[call]))
        result = Message(role=Role.TOOL, content="0 degrees", tool_call_id="call_0")
        step = await engine.prepare_turn("s", result, request_id=request_id)
        assert [part.role.value for part in step.assembled_input.parts] == [
            "user",
            "assistant",
            "tool",
        ]
        await engine.commit_assistant_message("s", answer("Cold."))
    assert await messages(engine) == ["Weather?", "", "0 degrees", "Cold."]
    await engine.close()


@pytest.mark.req("B-07")
async def test_a_host_that_sends_its_list_again(url: str) -> None:
    engine, scope = engine_on(url), Scope(session_id="s")
    for texts in (["one?"], ["one?"], ["one?", "1", "two?"], ["one?", "1", "two?"]):
        host = [
            HostMessage(*((answer(t), Origin.ANSWER) if n % 2 else (user(t), Origin.TASK)))
            for n, t in enumerate(texts)
        ]
        prepared = await engine.prepare(ModelCall(scope, host, request_id=texts[-1]))
        await engine.commit(prepared.turn, Answer(answer("1" if len(texts) == 1 else "2")))
    assert await messages(engine) == ["one?", "1", "two?", "2"]
    await engine.close()


TOOL = ToolProvider(kind=ProviderKind.BUILTIN)
SOURCE = EvidenceSource(kind=SourceKind.TOOL, name="t")
FACTS: dict[str, Callable[[ContextEngine], Awaitable[Any]]] = {
    "tool call": lambda e: e.record_tool_call(
        "s", ToolCall(tool_call_id="c", tool="t", provider=TOOL)
    ),
    "tool run": lambda e: e.record_tool_run("s", ToolRun("t", {"a": 1}, "42", run_id="run")),
    "retrieval": lambda e: e.record_retrieval(
        "s", Retrieval("kb", "?", [RetrievedDoc("It is 42.", id="d")], run_id="run")
    ),
    "usage": lambda e: e.record_model_usage(
        "s", ModelUsage(model_usage_id="u", provider="p", model="m")
    ),
    "evidence": lambda e: e.record_evidence("s", "42", SOURCE, EvidenceType.TOOL_RESULT),
    "ingest": lambda e: e.ingest("s", "42", SOURCE, EvidenceType.TOOL_RESULT),
}


@pytest.mark.req("B-07", "A-09")
@pytest.mark.parametrize("fact", FACTS)
async def test_a_fact_that_is_told_again_writes_nothing(url: str, fact: str) -> None:
    engine = engine_on(url)
    await FACTS[fact](engine)
    first, scope = await engine.get_session("s"), Scope(session_id="s")
    events, was = await engine.list_events("s"), await engine.store.version(scope)
    await FACTS[fact](engine)
    assert await engine.get_session("s") == first
    assert await engine.list_events("s") == events
    assert await engine.store.version(scope) == was
    await engine.close()
