"""Tools: each run is recorded once with its arguments, its result and its call, wherever it runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import (
    AgentId,
    CancellationToken,
    FunctionCall,
    SingleThreadedAgentRuntime,
)
from autogen_core.tool_agent import ToolAgent
from autogen_core.tools import FunctionTool, StaticStreamWorkbench, StaticWorkbench

from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Answer, Call, Wire, text, tool_calls
from tests.adapters.autogen.configurations import agent, lookup
from tests.adapters.autogen.contract_apps import Client


pytestmark = pytest.mark.req("A-24")


def broken(word: str) -> str:
    """Fail on every word."""
    raise ValueError(f"no such word: {word}")


async def run(client: Any, engine: Any, asks: Answer, **settings: Any) -> Any:
    with Wire([asks, text("Done.")]) as wire:
        ann = agent("ann", client(wire), max_tool_iterations=3, **settings)
        with install_ce(ann, engine=engine) as installation, ce_session("s"):
            await ann.run(task="go")
        assert installation.faults == ()
        assert wire.refusals == []
        return wire.bodies


async def test_two_at_once_and_one_that_fails(client: Any, engine: Any, stored: Any) -> None:
    asks = tool_calls(
        [("lookup", {"word": "lane"}), ("broken", {"word": "x"}), ("lookup", {"word": "turn"})]
    )
    await run(client, engine, asks, tools=[lookup, broken])
    assert sorted(stored.runs(), key=str) == [
        ("broken", {"word": "x"}, "error"),
        ("lookup", {"word": "lane"}, "success"),
        ("lookup", {"word": "turn"}, "success"),
    ]
    document = stored.document()
    ids = {call.id for m in document.session.messages for call in m.tool_calls or ()}
    results = {m.tool_call_id: m.content for m in document.session.messages if m.role == "tool"}
    assert set(results) == ids
    for run_ in document.session.tool_state.tool_calls:
        (evidence_id,) = run_.result_evidence_ids
        assert document.evidences[evidence_id].content in results.values()


@pytest.mark.parametrize(
    "call",
    [Call("nobody", "{}", "c1"), Call("lookup", "{no json", "c1")],
    ids=["unknown", "no arguments"],
)
async def test_a_call_that_no_tool_runs_for(
    client: Any, engine: Any, stored: Any, call: Call
) -> None:
    """Its result is a message like any other."""
    bodies = await run(client, engine, Answer(calls=(call,)), tools=[lookup])
    (result,) = [m for m in bodies[-1]["messages"] if m["role"] == "tool"]
    (row,) = [m for m in stored.document().session.messages if m.role == "tool"]
    assert (row.tool_call_id, row.content, row.status) == ("c1", result["content"], "error")


async def test_a_workbench_of_the_app_s_own(client: Any, engine: Any, stored: Any) -> None:
    from autogen_core.tools import StaticWorkbench

    bench = StaticWorkbench([FunctionTool(lookup, description="Look a word up.")])
    await run(client, engine, tool_calls([("lookup", {"word": "lane"})]), workbench=bench)
    assert stored.runs() == [("lookup", {"word": "lane"}, "success")]


async def test_a_tool_of_a_core_agent(engine: Any, stored: Any) -> None:
    runtime = SingleThreadedAgentRuntime()
    tools: Any = [FunctionTool(lookup, description="Look a word up.")]
    with install_ce(runtime, engine=engine):
        await ToolAgent.register(runtime, "tools", lambda: ToolAgent("runs tools", tools))
        runtime.start()
        call = FunctionCall(id="c1", name="lookup", arguments='{"word": "lane"}')
        result = await runtime.send_message(call, AgentId("tools", "s"))
        await runtime.stop_when_idle()
    assert result.content == lookup("lane")
    assert stored.runs() == [("lookup", {"word": "lane"}, "success")]


async def test_a_tool_that_the_app_calls_itself_is_its_own(engine: Any, stored: Any) -> None:
    tool: Any = FunctionTool(lookup, description="Look a word up.")
    with ce_session("s"):
        assert await tool.run_json({"word": "lane"}, CancellationToken()) == lookup("lane")
    assert stored.sessions() == []


@pytest.mark.parametrize("streams", [False, True])
async def test_a_tool_that_is_cancelled_is_one_that_failed(
    streams: bool, client: Any, engine: Any, stored: Any
) -> None:
    """AutoGen's agent waits for such a tool for ever: the app cancels its run, too."""
    token, begun, gone = CancellationToken(), asyncio.Event(), asyncio.Event()

    async def wait(word: str) -> str:
        """Wait for ever."""
        begun.set()
        try:
            return str(await asyncio.get_running_loop().create_future())
        finally:
            gone.set()

    kind = StaticStreamWorkbench if streams else StaticWorkbench
    tool = FunctionTool(wait, description="Wait.")
    with Wire([tool_calls([("wait", {"word": "lane"})])]) as wire:
        ann = AssistantAgent("ann", client(wire), workbench=kind([tool]))
        with install_ce(ann, engine=engine) as installation, ce_session("s"):
            running = asyncio.create_task(ann.run(task="go", cancellation_token=token))
            await begun.wait()
            token.cancel()
            await gone.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert installation.faults == ()
    assert stored.runs() == [("wait", {"word": "lane"}, "error")]


@pytest.mark.parametrize("given_token", [False, True])
async def test_a_plain_function_that_runs_an_agent(
    given_token: bool, client: Any, engine: Any, stored: Any
) -> None:
    """AutoGen runs it in a thread, where nothing of the run is known by itself."""
    called = tool_calls([("research", {"topic": "lanes"})])
    with Wire([called, text("A lane is a line."), text("Done.")]) as wire:

        async def helped(topic: str) -> str:
            model = Client(wire)
            result = await agent("helper", model).run(task=topic)
            await model.close()
            return str(result.messages[-1].to_text())

        def research(topic: str) -> str:
            """Ask another agent."""
            return asyncio.run(helped(topic))

        def until(topic: str, cancellation_token: CancellationToken) -> str:
            """Ask another agent."""
            return research(topic)

        tool = FunctionTool(until if given_token else research, "Ask.", name="research")
        boss = agent("boss", client(wire), tools=[tool], max_tool_iterations=3)
        with install_ce(boss, engine=engine), ce_session("s"):
            await boss.run(task="go")
    assert tool._func is (until if given_token else research)
    assert [each.session_id for each in stored.sessions()] == ["s"]
    assert [turn.lane for turn in stored.turns()] == ["boss", "boss/helper", "boss"]
    assert stored.runs() == [("research", {"topic": "lanes"}, "success")]


async def test_a_function_tool_of_the_app_s_own_class_stays_itself(
    client: Any, engine: Any, stored: Any
) -> None:
    class Counting(FunctionTool):
        count = 0

        async def run(self, args: Any, cancellation_token: CancellationToken) -> Any:
            self.count += 1
            return await super().run(args, cancellation_token)

    tool = Counting(lookup, "Look a word up.")
    await run(client, engine, tool_calls([("lookup", {"word": "lane"})]), tools=[tool])
    assert tool.count == 1
    assert stored.runs() == [("lookup", {"word": "lane"}, "success")]
