"""Calls of models: the same bytes with room, streams, fallbacks, errors, tracers, and Haystack's own compaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import FallbackChatGenerator
from haystack.core.errors import PipelineRuntimeError
from haystack.dataclasses import ChatMessage
from haystack.tools.from_function import create_tool_from_function
from haystack.tracing.tracer import Span as HaystackSpan
from haystack.tracing.tracer import Tracer, disable_tracing, enable_tracing
from openai import BadRequestError

from ce_engine import BudgetConfig, ContextEngine, RuntimeConfig
from ce_integrations.haystack import install_ce
from ce_integrations.identity.session import ce_session
from ce_integrations.testing.answers import error, hang, text, tool_calls
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.wire import Wire
from tests.adapters.haystack.conftest import MakeModel
from tests.adapters.haystack.contract_surfaces import TOOL, prompting, said
from tests.adapters.stored import Stored


PROMPT = {"prompt": {"question": "lane? 车道"}}
LOOKS = [tool_calls([("lookup", {"word": "lane"})]), text("A line. 一条线")]


def answer(done: Any) -> str:
    return str(done["llm"]["replies"][0].text)


async def streamed(pipeline: Pipeline) -> list[str]:
    return [chunk.content async for chunk in pipeline.stream({**PROMPT})]


async def awaited(pipeline: Pipeline) -> str:
    return answer(await pipeline.run_async(PROMPT))


WAYS: dict[str, Callable[[Any], Any]] = {
    "run": lambda pipeline: answer(pipeline.run(PROMPT)),
    "run_async": awaited,
    "stream": streamed,
}


@pytest.mark.scenario(1)
@pytest.mark.parametrize("way", WAYS)
def test_a_pipeline_sends_and_gives_the_same(
    way: str, twins: Any, model: MakeModel, runner: asyncio.Runner
) -> None:
    def drive(pipeline: Any) -> Any:
        given = WAYS[way](pipeline)
        return runner.run(given) if asyncio.iscoroutine(given) else given

    found = twins(lambda wire: prompting(model(wire)), drive, "A line. 一条线")
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]


@pytest.mark.scenario(1)
@pytest.mark.parametrize("way", ["run", "run_async"])
def test_an_agent_sends_and_gives_the_same(
    way: str, twins: Any, model: MakeModel, runner: asyncio.Runner
) -> None:
    def drive(agent: Any) -> Any:
        done = getattr(agent, way)(messages=said("lane?"))
        done = runner.run(done) if asyncio.iscoroutine(done) else done
        return [(m.role, m.text, m.tool_calls, m.tool_call_results) for m in done["messages"]]

    found = twins(lambda wire: Agent(chat_generator=model(wire), tools=[TOOL]), drive, LOOKS)
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]


# Budgets


def long_talk(turns: int) -> list[ChatMessage]:
    history: list[ChatMessage] = []
    for n in range(turns):
        history.append(ChatMessage.from_user(f"Question {n}: what of lane {n}? 车道{n}在哪里？"))
        history.append(ChatMessage.from_assistant(f"Lane {n} is a line of {n}. " * 8))
    return history


def page(number: int) -> str:
    """Read a page."""
    return f"page {number}: 这里写着一些内容。 " * 40


def word(of: str) -> str:
    """Look a word up."""
    return f"{of} is a word. " * 40


READS = [
    tool_calls([("page", {"number": 1}), ("word", {"of": "lane"}), ("page", {"number": 2})]),
    tool_calls([("page", {"number": 3})]),
    text("So it is."),
]


@pytest.mark.scenario(2)
def test_a_long_talk_with_tools_fits_and_the_app_has_all_of_it(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    """A strict provider refuses half pairs."""
    limit = RuntimeConfig(budget=BudgetConfig(max_input_tokens=2000, reserved_reply_tokens=0))
    tools = [create_tool_from_function(each) for each in (page, word)]
    given = [*long_talk(20), *said("And what do the pages say?")]
    with Wire(READS) as wire:
        agent = Agent(chat_generator=model(wire), tools=tools, system_prompt="Read. 读吧。")
        with install_ce(agent, engine=engine, session_id="s", config=limit):
            done = agent.run(messages=list(given))
        assert wire.refusals == []
        bodies = wire.bodies
    assert max(map(count, bodies)) <= 2000
    assert done["messages"][1 : len(given) + 1] == given
    assert len(done["messages"]) == 1 + len(given) + 2 + 4 + 1
    results = [m.tool_call_result.result for m in done["messages"] if m.tool_call_results]
    assert results == [page(1), word("lane"), page(2), page(3)]
    assert [run.status for run in kept.document().session.tool_state.tool_calls] == ["success"] * 4


@pytest.mark.filterwarnings("ignore:.*is an experimental component")
@pytest.mark.needs("compaction")
@pytest.mark.scenario(10)
def test_it_works_beside_haystack_s_own_compaction(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    """What a hook asks is no part of the talk, and its summary is there once."""
    from haystack.hooks.compaction import CompactionHook, SummarizationCompactor

    def says(body: Any) -> Any:
        return "In short: lanes." if "ummar" in str(body["messages"][0]) else "So it is."

    with Wire(says) as wire:
        compactor = SummarizationCompactor(chat_generator=model(wire))
        hook = CompactionHook(compactor, context_window=1500)
        agent = Agent(chat_generator=model(wire), hooks={"before_llm": [hook]})
        with install_ce(agent, engine=engine, session_id="s"):
            agent.run(messages=[*long_talk(20), *said("And now?")])
        assert len(wire.requests) == 2
    assert [turn.purpose for turn in kept.turns()] == ["helper", "chat"]
    asked = [m.content for m in kept.document().session.messages if m.role == "user"]
    assert asked[-1] == "And now?"
    assert sum("In short" in each for each in asked) == 1


# Fallbacks and errors


@pytest.mark.scenario(5)
@pytest.mark.parametrize("alone", [True, False])
def test_a_fallback_s_failure_is_an_attempt(
    alone: bool, engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    with Wire([error(500, "overloaded"), text("A line.")]) as wire:
        target: Any = FallbackChatGenerator([model(wire), model(wire)])
        app = target if alone else Agent(chat_generator=target)
        with install_ce(app, engine=engine, session_id="s"):
            done = app.run(messages=said("lane?"))
        assert len({sent.raw for sent in wire.requests}) == 1
    if alone:
        assert done["meta"]["failed_chat_generators"] == ["Model"]
    (turn,) = kept.turns()
    assert [each["status"] for each in turn.attempts] == ["failed"]
    assert (turn.status, turn.attempt) == ("committed", 2)
    session = kept.document().session
    assert [m.content for m in session.messages] == ["lane?", "A line."]
    assert len(session.model_usage) == 1


@pytest.mark.scenario(13)
def test_a_provider_s_error_is_the_app_s(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    script = error(400, "too long", code="context_length_exceeded")
    with Wire([script, script]) as wire:
        pipeline = prompting(model(wire))
        with pytest.raises(PipelineRuntimeError) as plain:
            pipeline.run(PROMPT)
        with (
            install_ce(pipeline, engine=engine, session_id="s"),
            pytest.raises(PipelineRuntimeError) as ours,
        ):
            pipeline.run(PROMPT)
    assert str(ours.value) == str(plain.value)
    assert type(ours.value.__cause__) is type(plain.value.__cause__) is BadRequestError
    (turn,) = kept.turns()
    assert turn.status == "failed"


# Streams


class Left(Exception):  # noqa: N818 - it is no error
    """The app wants no more."""


@pytest.mark.scenario(6)
@pytest.mark.parametrize("own", [True, False])
def test_a_stream_that_a_callback_leaves_is_incomplete(
    own: bool, engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    pieces: list[str] = []

    def push(chunk: Any) -> None:
        pieces.append(chunk.content)
        if len("".join(pieces)) > 10:
            raise Left

    with Wire("An answer that is long, 很长很长的一个回答。") as wire:
        told: Any = {"streaming_callback": push}
        generator = model(wire, **(told if own else {}))
        with install_ce(generator, engine=engine, session_id="s"), pytest.raises(Left):
            generator.run(said("lane?"), **({} if own else told))
        assert wire.bodies[0]["stream"] is True
    (turn,) = kept.turns()
    assert turn.status == "incomplete"
    assert kept.document().session.messages[-1].content == "".join(pieces)


@pytest.mark.scenario(6)
def test_a_stream_of_a_pipeline_that_is_left_is_incomplete(
    engine: ContextEngine, model: MakeModel, kept: Stored, runner: asyncio.Runner
) -> None:
    async def leave(pipeline: Pipeline) -> None:
        handle = pipeline.stream({**PROMPT})
        async for chunk in handle:
            if chunk.content:
                break
        await handle.aclose()
        async with asyncio.timeout(20):
            while any(turn.status == "open" for turn in kept.turns()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    slow = hang(20, after_chunks=3, then=text("An answer that is long, 很长很长的一个回答。"))
    with Wire(slow) as wire:
        pipeline = prompting(model(wire))
        with install_ce(pipeline, engine=engine, session_id="s"):
            runner.run(leave(pipeline))
    (turn,) = kept.turns()
    assert turn.status == "incomplete"


@pytest.mark.scenario(6)
def test_who_asks_for_no_stream_gets_none_and_who_does_has_its_first_piece_timed(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    with Wire("A line. 一条线") as wire:
        generator = model(wire)
        with install_ce(generator, engine=engine, session_id="s"):
            generator.run(said("lane?"))
            generator.run(said("cut?"), streaming_callback=lambda _: None)
        assert [body["stream"] for body in wire.bodies] == [False, True]
        assert "stream_options" not in wire.bodies[1]
    plain, pushed = kept.document().session.model_usage
    assert plain.first_token_latency_ms is None
    assert pushed.first_token_latency_ms is not None
    assert not plain.params.get("estimated")
    assert pushed.params.get("estimated")


# Tracers


class Noting(Tracer):
    """Notes what each span is called, and what it is told."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []

    @contextmanager
    def trace(
        self, operation_name: str, tags: Any = None, parent_span: Any = None
    ) -> Iterator[Any]:
        told: dict[str, Any] = {}
        self.spans.append((operation_name, told))
        yield Span(told)

    def current_span(self) -> None:
        return None


class Span(HaystackSpan):
    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told

    def set_tag(self, key: str, value: Any) -> None:
        self.told[key] = str(value) if "id" not in key else ""

    def set_content_tag(self, key: str, value: Any) -> None:
        self.told[key] = ""


@pytest.mark.scenario(12)
def test_other_people_s_tracers_see_the_same(twins: Any, model: MakeModel) -> None:
    def drive(agent: Any) -> Any:
        tracer = Noting()
        enable_tracing(tracer)
        try:
            agent.run(messages=said("lane?"))
        finally:
            disable_tracing()
        return tracer.spans

    found = twins(lambda wire: Agent(chat_generator=model(wire), tools=[TOOL]), drive, LOOKS)
    assert len(found.results[0]) > 3
    assert found.results[0] == found.results[1]


def test_history_goes_in_where_it_is_asked_for(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    with Wire("A line. 一条线") as wire:
        pipeline = prompting(model(wire))
        with install_ce(pipeline, engine=engine, history=True), ce_session("s"):
            pipeline.run(PROMPT)
            pipeline.run({"prompt": {"question": "and a cut?"}})
        assert "A line. 一条线" in str(wire.bodies[1])
        assert len(wire.bodies[0]["messages"]) == 1
    assert len(kept.document().session.messages) == 4
