"""A core runtime: its agents, the teams that run on it, and the tools that it runs."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import (
    AgentId,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    message_handler,
)
from autogen_core.models import SystemMessage, UserMessage
from autogen_core.tool_agent import ToolAgent, tool_agent_caller_loop
from autogen_core.tools import FunctionTool

from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.autogen.configurations import TASK, agents, lookup
from tests.adapters.autogen.contract_apps import Ask, Core


pytestmark = pytest.mark.req("A-23", "A-24")

TOOLS: list[Any] = [FunctionTool(lookup, description="Look a word up.")]


class Looking(RoutedAgent):
    """Asks a model, and another agent to run what it calls."""

    def __init__(self, client: Any) -> None:
        super().__init__("looks words up")
        self.client = client

    @message_handler
    async def ask(self, message: Ask, context: MessageContext) -> str:
        said = await tool_agent_caller_loop(
            self,
            tool_agent_id=AgentId("tools", self.id.key),
            model_client=self.client,
            input_messages=[
                SystemMessage(content="You look words up."),
                UserMessage(content=message.text, source="user"),
            ],
            tool_schema=[tool.schema for tool in TOOLS],
        )
        return str(said[-1].content)


async def test_an_agent_that_has_another_run_its_tools(
    client: Any, engine: Any, stored: Any
) -> None:
    script = [tool_calls([("lookup", {"word": "lane"})]), text("A line.")]
    with Wire(script) as wire:
        model, runtime = client(wire), SingleThreadedAgentRuntime()
        with install_ce(runtime, engine=engine):
            await Looking.register(runtime, "looking", lambda: Looking(model))
            await ToolAgent.register(runtime, "tools", lambda: ToolAgent("runs tools", TOOLS))
            runtime.start()
            answer = await runtime.send_message(Ask(TASK), AgentId("looking", "s"))
            await runtime.stop_when_idle()
        assert wire.refusals == []
    assert answer == "A line."
    assert stored.runs() == [("lookup", {"word": "lane"}, "success")]
    assert [turn.lane for turn in stored.turns()] == ["looking", "looking"]
    (run,) = stored.document().session.tool_state.tool_calls
    assert len(run.result_evidence_ids) == 1


async def test_a_team_on_an_installed_runtime(client: Any, engine: Any, stored: Any) -> None:
    with Wire() as wire:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        team = RoundRobinGroupChat(agents(client(wire)), max_turns=3, runtime=runtime)
        with install_ce(runtime, engine=engine), ce_session("s"):
            await team.run(task=TASK)
        await runtime.stop()
    team_name = "RoundRobinGroupChat"
    assert [turn.lane for turn in stored.turns()] == [
        f"{team_name}/{name}" for name in ("ann", "bob", "cid")
    ]
    assert [name for _, name, _ in stored.said()] == ["user", "ann", "bob", "cid"]


async def test_users_of_one_runtime_never_mix(client: Any, engine: Any, stored: Any) -> None:
    """One agent a key, made by the runtime when it is asked for."""
    with Wire(lambda body: f"heard {body['messages'][-1]['content']}") as wire:
        model, runtime = client(wire), SingleThreadedAgentRuntime()
        with install_ce(runtime, engine=engine):
            await Core.register(runtime, "core", lambda: Core(model))
            runtime.start()
            for words in ("one", "two"):
                for key in ("u1", "u2"):
                    await runtime.send_message(Ask(f"{words} of {key}"), AgentId("core", key))
            await runtime.stop_when_idle()
        bodies = [str(body) for body in wire.bodies]
    assert all(not ("of u1" in body and "of u2" in body) for body in bodies)
    for key in ("u1", "u2"):
        assert [content for *_, content in stored.said(key)] == [
            f"one of {key}",
            f"heard one of {key}",
            f"two of {key}",
            f"heard two of {key}",
        ]
