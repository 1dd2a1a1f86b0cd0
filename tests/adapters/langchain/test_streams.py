"""Streams: lazy, to the app first, closed once whatever the app does with them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import httpx
import openai
import pytest
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGenerationChunk

from ce_engine import Scope
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire, cut, error, hang, text, tool_calls


ANSWER = "A long answer in several pieces. 一个很长的回答，分成几段。"


@pytest.fixture
def turns(engine: Any) -> Any:
    """Status and errors of each turn of session "s"."""

    def read() -> list[tuple[str, Any]]:
        assert engine.sync.flush()
        found = engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
        return [(str(t.status), t.report.get("errors", [])) for t in found]

    return read


def answers(document: Any) -> list[tuple[str, str | None]]:
    return [(m.content, m.status) for m in document.session.messages if m.role == "assistant"]


def test_nothing_happens_before_the_first_piece(chat: Any, engine: Any, runner: Any) -> None:
    with Wire(ANSWER) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s") as installation:
            pieces = model.stream("hi")
            later = model.astream("hi")
            assert wire.requests == []
            assert installation.last_report("s") is None
            next(pieces)
            assert len(wire.requests) == 1
            pieces.close()
            runner.run(later.aclose())
            assert len(wire.requests) == 1


@pytest.mark.req("A-14")
def test_pieces_are_the_same_and_joined(chat: Any, engine: Any, runner: Any, stored: Any) -> None:
    async def collect(model: Any) -> list[str]:
        return [chunk.content async for chunk in model.astream("hi")]

    with Wire(ANSWER) as wire:
        plain = [chunk.content for chunk in chat(wire).stream("hi")]
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            assert [chunk.content for chunk in model.stream("hi")] == plain
            assert runner.run(collect(model)) == plain
            assert list((model | StrOutputParser()).stream("hi"))
    assert answers(stored("s")) == [(ANSWER, None)] * 3


@pytest.mark.scenario(15)
@pytest.mark.req("A-14")
def test_usage_of_a_stream(chat: Any, engine: Any, stored: Any) -> None:
    with Wire(ANSWER) as wire:
        told, untold = chat(wire, stream_usage=True), chat(wire)
        with (
            install_ce(told, engine=engine, session_id="told"),
            install_ce(untold, engine=engine, session_id="untold"),
        ):
            whole = list(told.stream("hi"))
            list(untold.stream("hi"))
    (real,) = stored("told").session.model_usage
    (guess,) = stored("untold").session.model_usage
    sent = next(chunk.usage_metadata for chunk in whole if chunk.usage_metadata)
    assert (real.prompt_tokens, real.completion_tokens) == (
        sent["input_tokens"],
        sent["output_tokens"],
    )
    assert "estimated" not in real.params
    assert guess.params["estimated"] is True
    assert guess.total_tokens == guess.prompt_tokens + guess.completion_tokens > 0
    assert real.first_token_latency_ms is not None
    assert real.first_token_latency_ms <= real.latency_ms


def test_a_streamed_tool_call_is_whole(chat: Any, engine: Any, call: Any, stored: Any) -> None:
    with Wire([tool_calls([("f", {"x": "长" * 20}), ("g", {})])]) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            answer = call(model, "hi")
    assert [c["args"] for c in answer.tool_calls] == [{"x": "长" * 20}, {}]
    (_, message) = stored("s").session.messages
    assert [(c.name, c.args) for c in message.tool_calls] == [("f", {"x": "长" * 20}), ("g", {})]


ODD: dict[str, list[Any]] = {
    "mixed": [AIMessageChunk(content="one "), AIMessage("two"), ToolMessage("r", tool_call_id="1")],
    "no messages": [{"a": 1}, None, AIMessage("one two")],
}


@pytest.mark.production_guard
@pytest.mark.parametrize("kind", sorted(ODD))
def test_odd_chunks_are_the_app_s_own(
    engine: Any, runner: Any, stored: Any, turns: Any, kind: str
) -> None:
    class Odd(FakeListChatModel):
        def stream(self, *args: Any, **kwargs: Any) -> Any:
            yield from ODD[kind]

        async def astream(self, *args: Any, **kwargs: Any) -> Any:
            for chunk in ODD[kind]:
                yield chunk

    async def collect() -> list[Any]:
        return [chunk async for chunk in model.astream("hi")]

    model = Odd(responses=[""])
    with install_ce(model, engine=engine, session_id="s") as installation:
        assert list(model.stream("hi")) == ODD[kind]
        assert runner.run(collect()) == ODD[kind]
    assert {fault.where for fault in installation.faults} == {"answer"}
    assert [status for status, _ in turns()] == ["committed"] * 2
    assert all(words.startswith("one two") for words, _ in answers(stored("s")))


@pytest.mark.scenario(14)
@pytest.mark.req("A-14")
def test_a_stream_that_is_left_is_incomplete(
    chat: Any, engine: Any, stored: Any, turns: Any
) -> None:
    with Wire(ANSWER) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            taken = ""
            for chunk in model.stream("hi"):
                taken += chunk.content
                if len(taken) >= 16:
                    break
            del chunk
            gc.collect()
    assert turns() == [("incomplete", [])]
    assert answers(stored("s")) == [(taken, "incomplete")]
    (usage,) = stored("s").session.model_usage
    assert usage.params["estimated"] is True


async def test_an_async_stream_that_is_left(
    chat: Any, engine: Any, stored: Any, turns: Any
) -> None:
    with Wire(ANSWER) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            stream = model.astream("hi")
            taken = [(await anext(stream)).content for _ in range(4)]
            await stream.aclose()
            await asyncio.to_thread(turns)
        await model.root_async_client.close()
    assert await asyncio.to_thread(turns) == [("incomplete", [])]
    assert answers(await asyncio.to_thread(stored, "s")) == [("".join(taken), "incomplete")]


@pytest.mark.scenario(14)
@pytest.mark.parametrize("way", ["astream", "ainvoke"])
async def test_cancelled(chat: Any, engine: Any, stored: Any, turns: Any, way: str) -> None:
    began = asyncio.Event()
    with Wire(hang(20, after_chunks=3, then=text(ANSWER))) as wire:
        model = chat(wire)

        async def consume() -> None:
            async for chunk in model.astream("hi"):
                if chunk.content:
                    began.set()

        async def ask() -> None:
            await model.ainvoke("hi")

        with install_ce(model, engine=engine, session_id="s"):
            task = asyncio.create_task(consume() if way == "astream" else ask())
            if way == "astream":
                await began.wait()
            else:
                while not wire.requests:  # noqa: ASYNC110 - the server runs on another thread
                    await asyncio.sleep(0.01)
            while not task.done():  # between two reads, LangChain's own code swallows one
                task.cancel()
                await asyncio.sleep(0.01)
            assert task.cancelled()
        await model.root_async_client.close()
    assert await asyncio.to_thread(turns) == [("incomplete", [])]
    spoken = answers(await asyncio.to_thread(stored, "s"))
    assert len(spoken) == (1 if way == "astream" else 0)
    assert all(ANSWER.startswith(words) and status == "incomplete" for words, status in spoken)


def test_a_provider_s_error_is_the_app_s_as_before(
    chat: Any, engine: Any, call: Any, turns: Any, stored: Any
) -> None:
    with Wire([error(429, "slow down"), text("well")]) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            with pytest.raises(openai.RateLimitError, match="slow down"):
                call(model, "hi")
            assert call(model, "hi").content == "well"
    assert [status for status, _ in turns()][-1] == "committed"
    assert [m.content for m in stored("s").session.messages if m.role == "user"] == ["hi"]


def test_an_error_s_text_is_nowhere(
    chat: Any, engine: Any, turns: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with Wire(error(500, "the key is hunter2")) as wire:
        model = chat(wire)
        with (
            install_ce(model, engine=engine, session_id="s"),
            pytest.raises(Exception, match="hunter2") as caught,
        ):
            model.invoke("hi")
    assert turns() == [("failed", [f"{caught.type.__name__}:500"])]
    ours = [record for record in caplog.records if record.name.startswith("ce")]
    assert "hunter2" not in "".join(record.getMessage() for record in ours)


@pytest.mark.scenario(14)
def test_a_stream_that_breaks_keeps_what_came(
    chat: Any, engine: Any, turns: Any, stored: Any
) -> None:
    with Wire(cut(4, ANSWER)) as wire:
        model = chat(wire)
        with pytest.raises((openai.APIError, httpx.RemoteProtocolError)) as plain:
            list(model.stream("hi"))
        with install_ce(model, engine=engine, session_id="s"):
            pieces: list[str] = []
            with pytest.raises(plain.type):
                pieces.extend(chunk.content for chunk in model.stream("hi"))
    taken = "".join(pieces)
    ((status, errors),) = turns()
    assert status == "failed"
    assert len(errors) == 1
    assert taken
    assert answers(stored("s")) == [(taken, "failed")]


@pytest.mark.scenario(14)
@pytest.mark.req("B-07")
@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "batch"], indirect=True)
def test_retries_and_fallbacks_are_attempts_of_one_turn(
    chat: Any, engine: Any, call: Any, stored: Any
) -> None:
    with Wire([error(500, "no"), text("well")]) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            patient = model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
            assert call(patient, "hi").content == "well"
    with Wire([error(500, "no"), text("well")]) as wire:
        first, second = chat(wire), chat(wire)
        either = first.with_fallbacks([second])
        with install_ce(either, engine=engine, session_id="s"):
            assert call(either, [HumanMessage("again")]).content == "well"
    assert [m.content for m in stored("s").session.messages] == ["hi", "well", "again", "well"]
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
    assert [(t.status, t.attempt) for t in turns] == [("committed", 2)] * 2
    assert [t.attempts[0]["status"] for t in turns] == ["failed"] * 2


@pytest.mark.parametrize(
    "pieces",
    [["one ", "two "], [[{"type": "text", "text": "one "}], [{"type": "text", "text": "two "}]]],
)
async def test_what_others_heard_of_a_whole_answer_is_kept_when_it_is_cancelled(
    engine: Any, stored: Any, turns: Any, pieces: list[Any]
) -> None:
    """LangGraph streams inside `ainvoke`: its handlers hear pieces, and the app has shown them."""
    heard = asyncio.Event()

    class Slow(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "slow"

        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("it is asked to stream")

        async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            for piece in pieces:
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
            heard.set()
            await asyncio.sleep(20)

    model = Slow()
    with install_ce(model, engine=engine, session_id="s"):
        task = asyncio.create_task(model.ainvoke("hi", stream=True))
        await heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(turns) == [("incomplete", [])]
    assert answers(await asyncio.to_thread(stored, "s")) == [("one two ", "incomplete")]
