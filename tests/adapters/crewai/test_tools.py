"""What tools did, with the ids of the calls that asked for them: no event of CrewAI tells them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool

from ce_engine import SessionDocument
from ce_integrations import ce_session
from ce_integrations.crewai.mapper import to_schema
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.crewai.apps import agent, model


pytestmark = [pytest.mark.scenario(5), pytest.mark.req("A-24")]

Stored = Callable[..., SessionDocument]


@tool
def search(word: str) -> str:
    """Search a word."""
    return f"{word} 意思"


@tool
def boom(word: str) -> str:
    """Fail."""
    raise ValueError(f"no such word: {word}")


def test_parallel_calls_have_the_provider_s_ids_and_say_how_they_ended(
    install: Any, engine: Any, stored: Stored
) -> None:
    asked = [("search", {"word": "a"}), ("search", {"word": "车道"}), ("boom", {"word": "x"})]
    script = [tool_calls([*asked, ("unknown", {"word": "y"})]), text("Done.")]
    with Wire(script) as wire:
        who = agent(model(wire), tools=[search, boom])
        with install(who, engine=engine), ce_session("s1"):
            assert said_by(who, "Look.") == "Done."
    session = stored("s1").session
    (caller,) = [m for m in session.messages if m.tool_calls]
    names = {f"{caller.message_id}:{n}": call.id for n, call in enumerate(caller.tool_calls or ())}
    runs = {names[run.tool_call_id]: run for run in session.tool_state.tool_calls}
    assert list(names.values()) == ["call_1_0", "call_1_1", "call_1_2", "call_1_3"]
    ended = [(run.tool, str(run.status)) for _, run in sorted(runs.items())]
    assert ended[:3] == [("search", "success"), ("search", "success"), ("boom", "error")]
    assert ended[3][0] == "unknown"
    assert [run.args_digest for _, run in sorted(runs.items())][1] == {"word": "车道"}
    assert all(run.duration_ms >= 0 and run.called_at for run in runs.values())


@pytest.mark.needs("failures")
def test_a_tool_that_is_not_there_is_an_error(install: Any, engine: Any, stored: Stored) -> None:
    with Wire([tool_calls([("unknown", {"word": "y"})]), text("Done.")]) as wire:
        who = agent(model(wire), tools=[search])
        with install(who, engine=engine), ce_session("s1"):
            who.kickoff("Look.")
    (run,) = stored("s1").session.tool_state.tool_calls
    assert (run.tool, str(run.status)) == ("unknown", "error")


def said_by(who: Any, question: str) -> str:
    return str(who.kickoff(question).raw)


class Written(BaseLLM):
    """A model that calls no functions: the agent reads what it writes."""

    answers: list[str]

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        return self.answers[sum(message["role"] == "assistant" for message in messages)]

    def supports_function_calling(self) -> bool:
        return False


WRITTEN = [
    'Thought: I look.\nAction: search\nAction Input: {"word": "车道"}',
    "Thought: I now know the final answer\nFinal Answer: A line. 一条线",
]


def test_calls_that_an_agent_writes_are_runs_and_pairs(
    install: Any, engine: Any, stored: Stored
) -> None:
    written = Written(model="own", answers=WRITTEN)
    who = agent(written, tools=[search])
    with install(who, engine=engine), ce_session("s1"):
        assert "A line" in said_by(who, "What is it?")
    session = stored("s1").session
    (run,) = session.tool_state.tool_calls
    assert (run.tool, str(run.status), run.args_digest) == ("search", "success", {"word": "车道"})
    said = [m.content for m in session.messages if m.role == "assistant"]
    assert said == WRITTEN, "each answer is stored once"
    assert [row.params.get("estimated") for row in session.model_usage] == [True, True]


ENDLESS = {
    "blanks behind an action": "Action: " + " " * 20_000 + "x",
    "blanks behind its input": "Action: x\nAction Input:" + " " * 20_000 + "x",
    "many inputs that do not end": "Action: x\nAction Input: {\n" * 5_000,
    "many inputs, and one end": "Action: x\nAction Input: \n" * 5_000 + "}",
}


@pytest.mark.parametrize("what", ENDLESS)
def test_no_text_of_a_model_s_stops_the_app(what: str) -> None:
    """One expression took hours for it, in each call of the conversation: this test would never end."""
    host = to_schema({"role": "assistant", "content": ENDLESS[what]})
    assert host.message.content == ENDLESS[what]


def test_a_call_is_read_as_it_was_written() -> None:
    written = 'Thought: I look.\nAction:  search the web \nAction Input: {"word":\n "车道"} \n'
    host = to_schema({"role": "assistant", "content": written})
    [call] = host.message.tool_calls or []
    assert (call.name, call.args) == ("search the web", {"word": "车道"})
