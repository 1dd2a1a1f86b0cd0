"""Streams of events in version 3: an object that the app reads from is governed as any other call."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextvars import copy_context
from typing import Any

import openai
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from ce_engine import BudgetConfig, BudgetExceededError, RuntimeConfig, Scope
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire, error, text, tool_calls


pytestmark = [
    pytest.mark.needs("event_streams"),
    pytest.mark.filterwarnings("ignore:.*is in beta"),
]

ANSWER = "A long answer in several pieces. 一个很长的回答，分成几段。"
SMALL = RuntimeConfig(budget=BudgetConfig(max_input_tokens=200))
LONG = [("user", "old " * 500), ("ai", "a"), ("user", "new")]
THREAD = {"configurable": {"thread_id": "s"}}

Ask = Callable[..., Any]


@pytest.fixture(params=["stream_events", "astream_events"])
def ask(request: pytest.FixtureRequest, runner: Any) -> Ask:
    """Read such a stream to its end, for the model's message."""

    def run(model: Any, given: Any, config: Any = None) -> BaseMessage:
        if request.param == "stream_events":
            stream = model.stream_events(given, config, version="v3")
            assert list(stream)
            found: BaseMessage = stream.output
            return found

        async def collect() -> BaseMessage:
            stream = await model.astream_events(given, config, version="v3")
            assert [event async for event in stream]
            found: BaseMessage | None = stream.output_message
            assert found is not None
            return found

        answer: BaseMessage = runner.run(collect(), context=copy_context())
        return answer

    return run


@pytest.fixture
def turns(engine: Any) -> Callable[[], list[str]]:
    def read() -> list[str]:
        assert engine.sync.flush()
        found = engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
        return [str(turn.status) for turn in found]

    return read


def contents(wire: Wire) -> list[str]:
    return [message["content"] for message in wire.bodies[-1]["messages"]]


@pytest.mark.scenario(1)
@pytest.mark.req("A-24")
def test_the_body_is_within_the_budget_and_recorded_once(
    chat: Any, engine: Any, ask: Ask, stored: Any, turns: Any
) -> None:
    with Wire(ANSWER) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s", config=SMALL) as installation:
            assert ask(model, LONG).text == ANSWER
        assert sum(map(len, contents(wire))) < 800
        assert contents(wire)[-1].endswith("new")
        assert len(wire.requests) == 1
    assert turns() == ["committed"]
    report = installation.last_report("s")
    assert report is not None
    assert report.token_used <= 200
    answers = [m.content for m in stored("s").session.messages if m.role == "assistant"]
    assert answers == ["a", ANSWER]


def test_without_a_need_the_body_is_the_app_s(twins: Any, chat: Any, ask: Ask) -> None:
    found = twins(chat, lambda model: ask(model, [("user", "你好")]).text, ANSWER)
    assert found.results == [ANSWER] * 2
    assert found.ours == found.plain


def test_each_turn_of_a_model_alone_is_its_own(
    chat: Any, engine: Any, ask: Ask, stored: Any
) -> None:
    with Wire([text(str(n)) for n in range(5)]) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine):
            for n in range(5):
                ask(model, f"question {n}", THREAD)
        assert [body["messages"] for body in wire.bodies] == [
            [{"role": "user", "content": f"question {n}"}] for n in range(5)
        ]
    assert len(stored("s").session.messages) == 10


def test_tool_calls_and_usage_are_the_model_s(
    chat: Any, engine: Any, ask: Ask, stored: Any
) -> None:
    with Wire([tool_calls([("f", {"x": "长" * 20})])]) as wire:
        model = chat(wire, stream_usage=True)
        with install_ce(model, engine=engine, session_id="s"):
            answer: Any = ask(model, "hi")
    (_, message) = stored("s").session.messages
    assert [(c.name, c.args) for c in message.tool_calls] == [("f", {"x": "长" * 20})]
    (usage,) = stored("s").session.model_usage
    assert usage.total_tokens == answer.usage_metadata["total_tokens"] > 0
    assert "estimated" not in usage.params


def test_handlers_hear_what_goes_to_the_model(chat: Any, engine: Any, ask: Ask) -> None:
    class Ears(BaseCallbackHandler):
        heard: list[Any]

        def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
            self.heard = [message.content for message in messages[0]]

    ears = Ears()
    with Wire(ANSWER) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s", config=SMALL):
            ask(model, LONG, {"callbacks": [ears]})
        assert ears.heard == contents(wire)
        assert sum(map(len, ears.heard)) < 800


def test_the_app_may_stop_at_the_last_event(chat: Any, engine: Any, turns: Any) -> None:
    with Wire(ANSWER) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            assert "".join(model.stream_events("hi", version="v3").text) == ANSWER
    assert turns() == ["committed"]


def test_one_that_nobody_reads_is_incomplete(chat: Any, engine: Any, turns: Any) -> None:
    with Wire(text(ANSWER)) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s") as installed:
            stream = model.stream_events("q", version="v3")
            assert turns() == ["open"]
            del stream
            gc.collect()
            assert installed.flush()
    assert turns() == ["incomplete"]
    assert wire.bodies == []


def test_one_that_is_left_is_incomplete(chat: Any, engine: Any, stored: Any, turns: Any) -> None:
    with Wire(ANSWER) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            stream = model.stream_events("hi", version="v3")
            pieces = iter(stream.text)
            taken = next(pieces) + next(pieces)
            del pieces, stream
            gc.collect()
    assert turns() == ["incomplete"]
    (_, answer) = stored("s").session.messages
    assert (answer.content, answer.status) == (taken, "incomplete")


class Endless(FakeListChatModel):
    """Says two words and is silent."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for word in ("one ", "two "):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        await asyncio.Event().wait()


def test_an_async_one_that_is_closed_is_incomplete(
    engine: Any, runner: Any, stored: Any, turns: Any
) -> None:
    async def leave(model: Any) -> list[str]:
        async with await model.astream_events("hi", version="v3") as stream:
            pieces = aiter(stream.text)
            return [await anext(pieces), await anext(pieces)]

    model = Endless(responses=[""])
    with install_ce(model, engine=engine, session_id="s"):
        taken = runner.run(leave(model))
    assert turns() == ["incomplete"]
    (_, answer) = stored("s").session.messages
    assert (answer.content, answer.status) == ("".join(taken), "incomplete")


def test_the_provider_s_error_is_the_app_s(chat: Any, engine: Any, ask: Ask, turns: Any) -> None:
    with Wire([error(429, "slow down"), text("well")]) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, session_id="s"):
            with pytest.raises(openai.RateLimitError, match="slow down"):
                ask(model, "hi")
            assert ask(model, "hi").text == "well"
    assert turns()[-1] == "committed"


@pytest.mark.production_guard
def test_when_we_fail_the_app_s_input_goes_on(
    chat: Any, engine: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*args: Any, **kwargs: Any) -> Any:
        raise ValueError

    with Wire(ANSWER) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine, fail="closed", config=SMALL):
            with pytest.raises(BudgetExceededError):
                ask(model, "word " * 2000)
            monkeypatch.setattr(engine, "prepare", fails)
            assert ask(model, "hi").text == ANSWER
        assert contents(wire) == ["hi"]
