"""Tools and structured answers: all of a model's ways to them end in what is governed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.prompts import ChatPromptTemplate, PromptTemplate
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from ce_engine import BudgetConfig, EvidenceType, RuntimeConfig, Scope, ToolCallStatus
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex.releases import make_agent
from tests.adapters.llamaindex.shelf import memory


pytestmark = pytest.mark.scenario(2)


class Lane(BaseModel):
    """A line of conversation."""

    name: str
    turns: int


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means 意思"


LOOKUP = FunctionTool.from_defaults(lookup)
CALL = tool_calls([("lookup", {"word": "lane"})])
LANE = tool_calls([("Lane", {"name": "main", "turns": 2})])
PROMPT = PromptTemplate("Describe a lane of {n} turns.")
MESSAGES = ChatPromptTemplate([ChatMessage(role="user", content="Describe {n} turns.")])


def turns(engine: Any) -> list[Any]:
    assert engine.sync.flush()
    return list(engine.loop.run(engine.store.list_turns(Scope(session_id="s"))))


def said(found: Any) -> list[str]:
    return [str(message["content"]) for message in found.bodies[0]["messages"]]


@pytest.mark.req("A-24")
@pytest.mark.parametrize("how", ["", "a", "stream_", "astream_"])
def test_tools_go_out_and_are_counted(
    how: str, twins: Any, model: Any, call: Any, engine: Any
) -> None:
    asked = ChatMessage("What is a lane?")

    def drive(llm: Any) -> Any:
        return call(llm, f"{how}chat_with_tools", [LOOKUP], chat_history=[asked])

    found = twins(model, drive, [CALL], session_id="s")
    assert found.ours == found.plain
    (turn,) = turns(engine)
    assert (turn.status, turn.purpose) == ("committed", "chat")
    with (
        Wire("no tools") as wire,
        install_ce(model(wire), engine=engine, session_id="bare") as ours,
    ):
        call(ours.target, "chat", [asked])
        without = ours.last_report("bare")
    with_tools = found.installation.last_report("s")
    assert without is not None
    assert with_tools.token_used > without.token_used + 10


@pytest.mark.parametrize("how", ["", "a"])
def test_a_tool_that_a_model_runs_itself_is_recorded(
    how: str, twins: Any, model: Any, call: Any, engine: Any, stored: Any
) -> None:
    def drive(llm: Any) -> Any:
        return call(llm, f"{how}predict_and_call", [LOOKUP], user_msg="What is a lane?")

    found = twins(model, drive, [CALL, text("It is a line.")], session_id="s")
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]
    (turn,) = turns(engine)
    session = stored("s").session
    (run,) = session.tool_state.tool_calls
    assert (run.tool, run.status) == ("lookup", ToolCallStatus.SUCCESS)
    assert run.args_digest == {"word": "lane"}
    assert run.result_evidence_ids
    assert turn.request_id


@pytest.mark.parametrize("given", [(("x", 5), {}), ((), {"args": "x", "kwargs": 5})])
def test_a_tool_s_arguments_may_have_any_names(given: Any, engine: Any, stored: Any) -> None:
    def odd(args: str, kwargs: int) -> str:
        """Join."""
        return f"{args}{kwargs}"

    tool = FunctionTool.from_defaults(odd)
    with install_ce(tool, engine=engine, session_id="s"):
        assert str(tool(*given[0], **given[1])) == "x5"
    (run, *_) = stored("s").session.tool_state.tool_calls
    assert run.args_digest == {"args": "x", "kwargs": 5}


def draw(word: str) -> list[Any]:
    """Draw a word."""
    return [TextBlock(text=f"a picture of {word}"), ImageBlock(url="https://example.com/p.png")]


def test_what_a_tool_shows_beside_its_words_is_one_result(
    twins: Any, model: Any, runner: asyncio.Runner, stored: Any
) -> None:
    def drive(agent: Any) -> str:
        async def run() -> str:
            return str(await agent.run("Draw it.", memory=memory()))

        return runner.run(run())

    script = [tool_calls([("draw", {"word": "lane"})]), text("There.")]
    found = twins(lambda wire: make_agent(model(wire), [draw], "S"), drive, script)
    assert found.ours == found.plain
    document = stored("s")
    told = [e for e in document.evidences.values() if e.type is EvidenceType.TOOL_RESULT]
    assert ["a picture of lane" in e.content for e in told] == [True]
    (run,) = document.session.tool_state.tool_calls
    assert run.result_evidence_ids == [told[0].evidence_id]


@pytest.mark.parametrize("prompt", [PROMPT, MESSAGES], ids=["text", "messages"])
@pytest.mark.parametrize("how", ["predict", "apredict", "stream", "astream"])
def test_a_prompt_is_a_call(
    how: str, prompt: Any, twins: Any, model: Any, call: Any, engine: Any
) -> None:
    found = twins(model, lambda llm: call(llm, how, prompt, n=3), "Three.", session_id="s")
    assert found.ours == found.plain
    assert "".join(found.results[1]) == "Three."
    (turn,) = turns(engine)
    assert (turn.status, turn.purpose) == ("committed", "chat")


@pytest.mark.parametrize("how", ["structured_predict", "astructured_predict"])
def test_a_structured_answer_is_a_call(
    how: str, twins: Any, model: Any, call: Any, engine: Any
) -> None:
    found = twins(model, lambda llm: call(llm, how, Lane, PROMPT, n=2), [LANE], session_id="s")
    assert found.ours == found.plain
    assert found.results[0] == found.results[1] == [str(Lane(name="main", turns=2))]
    (turn,) = turns(engine)
    assert turn.status == "committed"


@pytest.mark.parametrize("made", ["before", "after"])
def test_a_structured_model_is_governed_by_the_one_inside(
    made: str, model: Any, runner: asyncio.Runner, engine: Any
) -> None:
    with Wire([LANE, LANE]) as wire:
        llm = model(wire)
        shaped = llm.as_structured_llm(Lane)
        with install_ce(shaped if made == "before" else llm, engine=engine, session_id="s"):
            if made == "after":
                shaped = llm.as_structured_llm(Lane)
            asked = [ChatMessage("Describe a lane.")]
            assert shaped.chat(asked).raw == Lane(name="main", turns=2)
            assert runner.run(shaped.achat(asked)).raw == Lane(name="main", turns=2)
        assert [turn.attempt for turn in turns(engine)] == [1, 1]
        assert len(wire.requests) == 2
        assert "_ce_mark" not in vars(shaped) | vars(llm)


def test_what_tools_cost_is_part_of_the_budget(model: Any, call: Any, engine: Any) -> None:
    """A list that fits beside no tools does not beside many."""
    many = [
        FunctionTool.from_defaults(lookup, name=f"look_{n}", description="long " * 60)
        for n in range(12)
    ]
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=1800))
    talk = [
        ChatMessage(role=role, content=f"{n}: " + "some words " * 30)
        for n in range(9)
        for role in ("user", "assistant")
    ]
    talk.append(ChatMessage("And now?"))
    with Wire("fine") as wire:
        with install_ce(model(wire), engine=engine, config=config, session_id="s") as ours:
            call(ours.target, "chat", talk)
            call(ours.target, "chat_with_tools", many, chat_history=talk)
        without, beside = (len(body["messages"]) for body in wire.bodies)
    assert beside < without == len(talk)
