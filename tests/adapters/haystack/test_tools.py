"""Runs of tools: which call each is for, what it gave, and those that there is no tool for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from haystack.components.agents import Agent
from haystack.tools.from_function import create_tool_from_function
from haystack.tools.tool import Tool

from ce_engine import ContextEngine, Scope
from ce_integrations.haystack import install_ce
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.haystack.conftest import MakeModel
from tests.adapters.haystack.contract_surfaces import said
from tests.adapters.stored import Stored


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means 意思"


def broken(word: str) -> str:
    """Fail."""
    raise TimeoutError(f"no word in time: {word}")


def counting(word: str, talk: list[str]) -> dict[str, int]:
    """Count letters; the framework adds the talk."""
    assert talk
    return {"字数": len(word)}


async def _slowly(word: str) -> str:
    await asyncio.sleep(0)
    return f"{word}, slowly"


SLOWLY: dict[str, Any] = {
    "name": "slowly",
    "description": "Look a word up, slowly.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
}

TOOLS = [
    create_tool_from_function(lookup),
    create_tool_from_function(broken),
    create_tool_from_function(counting, inputs_from_state={"messages": "talk"}),
]
CALLS = [
    ("lookup", {"word": "lane"}),
    ("lookup", {"word": "lane"}),
    ("broken", {"word": "cut"}),
    ("nothing", {"word": "turn"}),
    ("counting", {"word": "车道"}),
]
ASKS = tool_calls(CALLS, ids=["a", "b", "c", "d", "e"])


@pytest.mark.scenario(9)
@pytest.mark.parametrize("way", ["run", "run_async"])
def test_each_call_has_a_run_with_its_result(
    way: str, engine: ContextEngine, model: MakeModel, kept: Stored, runner: asyncio.Runner
) -> None:
    with Wire([ASKS, text("So.")]) as wire:
        agent = Agent(chat_generator=model(wire), tools=TOOLS)
        with install_ce(agent, engine=engine, session_id="s"):
            done = getattr(agent, way)(messages=said("lane?"))
            if asyncio.iscoroutine(done):
                runner.run(done)
        assert wire.refusals == []
    document = kept.document()
    runs = document.session.tool_state.tool_calls
    assert sorted((run.tool, str(run.status)) for run in runs) == [
        ("broken", "timeout"),
        ("counting", "success"),
        ("lookup", "success"),
        ("lookup", "success"),
        ("nothing", "error"),
    ]
    by_id = {run.tool_call_id.rpartition(":")[2]: run for run in runs}
    assert [by_id[place].tool for place in "01234"] == [call for call, _ in CALLS]
    assert [by_id[place].args_digest for place in "01234"] == [args for _, args in CALLS]
    given = {name: e.content for name, e in document.evidences.items()}
    assert [given[name] for name in by_id["0"].result_evidence_ids] == ["lane means 意思"]
    assert [given[name] for name in by_id["4"].result_evidence_ids] == ['{"字数": 2}']
    (failure,) = (given[name] for name in by_id["2"].result_evidence_ids)
    assert "no word in time: cut" in failure
    told = [m for m in document.session.messages if m.role == "tool"]
    assert {m.tool_call_id: m.status for m in told} == {
        "a": None,
        "b": None,
        "c": "error",
        "d": "error",
        "e": None,
    }


@pytest.mark.parametrize("way", ["run", "run_async"])
def test_what_a_tool_s_own_handler_says_is_its_one_result(
    way: str, engine: ContextEngine, model: MakeModel, kept: Stored, runner: asyncio.Runner
) -> None:
    """The handler is the app's: it is called once. Its words are told at the end of the run, too."""
    heard: list[dict[str, int]] = []

    def in_words(result: dict[str, int]) -> str:
        heard.append(result)
        return f"{result['字数']} 个字"

    handled = Tool(
        name="letters",
        description="Count letters.",
        parameters=SLOWLY["parameters"],
        function=lambda word: {"字数": len(word)},
        outputs_to_string={"handler": in_words},
    )
    calls = [("letters", {"word": "车道"}), ("letters", {"word": "lane"})]
    with Wire([tool_calls(calls), text("So.")]) as wire:
        agent = Agent(chat_generator=model(wire), tools=[handled], exit_conditions=["letters"])
        with install_ce(agent, engine=engine, session_id="s"):
            done = getattr(agent, way)(messages=said("lane?"))
            if asyncio.iscoroutine(done):
                runner.run(done)
        assert len(wire.bodies) == 1
    document = kept.document()
    runs = document.session.tool_state.tool_calls
    given = [[document.evidences[e].content for e in run.result_evidence_ids] for run in runs]
    assert sorted(given) == [["2 个字"], ["4 个字"]]
    assert sorted(each["字数"] for each in heard) == [2, 4]


@pytest.mark.scenario(9)
def test_a_tool_that_is_awaited_only(
    engine: ContextEngine, model: MakeModel, kept: Stored, runner: asyncio.Runner
) -> None:
    tool = Tool(**SLOWLY, async_function=_slowly)
    with Wire([tool_calls([("slowly", {"word": "lane"})]), text("So.")]) as wire:
        agent = Agent(chat_generator=model(wire), tools=[tool])
        with install_ce(agent, engine=engine, session_id="s"):
            runner.run(agent.run_async(messages=said("lane?")))
    document = kept.document()
    (run,) = document.session.tool_state.tool_calls
    (result,) = run.result_evidence_ids
    assert (run.status, document.evidences[result].content) == ("success", "lane, slowly")


@pytest.mark.scenario(9)
def test_an_agent_that_lets_errors_through(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    from haystack.tools.errors import ToolInvocationError

    with Wire([tool_calls([("broken", {"word": "cut"})])]) as wire:
        agent = Agent(
            chat_generator=model(wire), tools=TOOLS, raise_on_tool_invocation_failure=True
        )
        with (
            install_ce(agent, engine=engine, session_id="s"),
            pytest.raises(ToolInvocationError, match="no word in time"),
        ):
            agent.run(messages=said("lane?"))
    (run,) = kept.document().session.tool_state.tool_calls
    assert (run.tool, run.status) == ("broken", "timeout")


@pytest.mark.req("B-03")
def test_what_a_model_gives_a_tool_names_nobody(
    engine: ContextEngine, model: MakeModel, kept: Stored
) -> None:
    """A parameter of a tool may be called `user_id`: it says whom the model asks about, not who asks."""
    rule = "Say no more than is asked. 少说。"
    engine.sync.constraints.create(Scope(session_id="main", user_id="ada"), rule)
    script = [tool_calls([("lookup", {"user_id": "ada"})]), text("Nothing."), text("So.")]
    with Wire(script) as wire:
        inner = Agent(chat_generator=model(wire))

        def look(user_id: str) -> str:
            context = {"session_id": "main", "user_id": user_id}
            return str(inner.run(messages=said("Who?"), hook_context=context)["last_message"].text)

        schema = {"type": "object", "properties": {"user_id": {"type": "string"}}}
        tool = Tool(name="lookup", description="Look.", parameters=schema, function=look)
        agent = Agent(chat_generator=model(wire), tools=[tool])
        with install_ce(agent, engine=engine), install_ce(inner, engine=engine):
            whose = {"session_id": "main", "user_id": "eve"}
            agent.run(messages=said("Look Ada up."), hook_context=whose)
        assert [rule in str(body) for body in wire.bodies] == [False] * 3
    assert {each.user_id for each in kept.sessions()} == {"eve"}
