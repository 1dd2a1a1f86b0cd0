"""Installed on a model alone: its calls are governed as what asks it works, and nothing else of an app is."""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import MockLLM
from llama_index.core.memory import Memory
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.tools import FunctionTool

from ce_engine import Scope
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex import shelf
from tests.adapters.llamaindex.releases import make_agent


pytestmark = pytest.mark.scenario(2)


def queries(llm: Any, _: Any) -> list[str]:
    return [str(shelf.query(llm).query(question)) for question in ("one", "two")]


def refined(llm: Any, _: Any) -> str:
    return str(shelf.query(llm, response_mode="refine").query("one"))


def runs(llm: Any, runner: Any) -> list[str]:
    """Each with a memory of its own."""

    async def run(question: str) -> str:
        return str(await make_agent(llm, [], "S").run(question))

    return [runner.run(run(question), context=copy_context()) for question in ("one", "two")]


def reset(llm: Any, _: Any) -> list[str]:
    chat = shelf.simple(llm)
    first = str(chat.chat("one"))
    chat.reset()
    return [first, str(chat.chat("two"))]


@pytest.mark.parametrize("ask", [queries, refined, runs, reset])
def test_engines_and_agents_ask_as_before_in_a_session_with_earlier_turns(
    ask: Any, twins: Any, model: Any, runner: Any
) -> None:
    found = twins(model, lambda llm: ask(llm, runner), session_id="customer")
    assert found.ours == found.plain
    assert len(found.ours) > 1
    assert found.results[0] == found.results[1]


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means x"


def test_a_run_is_one_request_in_the_session_of_its_memory(
    model: Any, runner: Any, engine: Any, sessions: Any
) -> None:
    looks = [tool_calls([("lookup", {"word": f"w{n}"})], ids=[f"c{n}"]) for n in range(3)]

    async def two(llm: Any) -> list[str]:
        held = Memory.from_defaults(session_id="customer-17", token_limit=100_000)
        agent = make_agent(llm, [lookup], "S")
        answers = [str(await agent.run(question, memory=held)) for question in ("one", "two")]
        await shelf.close(held)
        return answers

    script = [*looks, text("first"), text("second")]
    with Wire(script) as wire, install_ce(model(wire), engine=engine) as ours:
        assert runner.run(two(ours.target)) == ["first", "second"]
    assert [(each.session_id, each.messages) for each in sessions()] == [("customer-17", 10)]
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="customer-17")))
    requests = [turn.request_id for turn in turns]
    assert [requests.count(each) for each in dict.fromkeys(requests)] == [4, 1]


def test_a_model_in_a_tool_has_a_line_of_its_own(
    model: Any, runner: Any, engine: Any, sessions: Any
) -> None:
    script = [tool_calls([("ask", {"word": "x"})]), text("inner"), text("outer")]
    with Wire(script) as wire, install_ce(model(wire), engine=engine) as ours:

        async def ask(word: str) -> str:
            """Ask."""
            return str(await ours.target.achat([ChatMessage(word)]))

        async def run() -> str:
            agent = make_agent(ours.target, [ask], "S")
            return str(await agent.run("q", memory=shelf.memory("talk")))

        assert runner.run(run()) == "outer"
    assert [each.session_id for each in sessions()] == ["talk"]
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="talk")))
    assert len({turn.lane for turn in turns}) == 2


def test_what_is_retrieved_is_not_recorded(model: Any, engine: Any, stored: Any) -> None:
    with Wire("A line.") as wire, install_ce(model(wire), engine=engine, session_id="s") as ours:
        shelf.query(ours.target).query("What is a lane?")
    document = stored("s")
    assert [m.content for m in document.session.messages if m.role == "assistant"] == ["A line."]
    assert document.session.tool_state.tool_calls == []
    assert {evidence.type for evidence in document.evidences.values()} <= {"llm_output"}


def test_a_tool_with_an_owner_is_recorded_in_an_agent_without(
    model: Any, runner: Any, engine: Any, stored: Any
) -> None:
    tool = FunctionTool.from_defaults(lookup)
    script = [tool_calls([("lookup", {"word": "x"})]), text("fine")]
    with Wire(script) as wire, install_ce(tool, engine=engine, session_id="s"):

        async def run() -> str:
            return str(await make_agent(model(wire), [tool], "S").run("q"))

        assert runner.run(run()) == "fine"
    assert [run.tool for run in stored("s").session.tool_state.tool_calls] == ["lookup"]


class Shy(RetrieverQueryEngine):
    @property
    def _memory(self) -> Any:
        raise LookupError("hunter2")


@pytest.mark.production_guard
def test_an_app_that_nobody_installed_on_is_left_alone(
    model: Any, call: Any, engine: Any, sessions: Any
) -> None:
    """One whose objects do not like to be looked at, too."""
    with Wire("fine") as wire, install_ce(MockLLM(), engine=engine) as ours:
        for asked in (shelf.query(model(wire)), Shy.from_args(shelf.Shelf(), llm=model(wire))):
            assert "".join(call(asked, "query", "q")) == "fine"
        assert ours.faults == ()
    assert sessions() == []
