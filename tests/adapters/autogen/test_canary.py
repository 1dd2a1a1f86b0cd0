"""What the redactor must catch, through every door that AutoGen has: in no byte of the store, no log, no report."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import Swarm
from autogen_core import FunctionCall
from autogen_core.memory import ListMemory, MemoryContent
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    SystemMessage,
    UserMessage,
)
from autogen_core.tools import FunctionTool

from ce_engine import ContextEngine
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.canary import CanaryTests, Places
from tests.canary.canaries import Canaries


def team(model: Any, canary: Canaries) -> Any:
    """Ann has a tool, a memory, and hands over to bob."""

    def send(to: str) -> str:
        if to == "nobody":
            raise ValueError(canary("tool error"))
        return canary("tool result")

    told = {"source": canary("source"), canary("metadata key"): canary("metadata")}
    fact = MemoryContent(
        content=canary("memory"),
        mime_type="text/plain",
        metadata={**told, "id": canary("memory id")},
    )
    ann = AssistantAgent(
        "ann",
        model,
        description=canary("agent description"),
        system_message=canary("system"),
        tools=[FunctionTool(send, description=canary("tool description"))],
        memory=[ListMemory(canary("memory name"), [fact])],
        handoffs=[
            Handoff(
                target="bob",
                description=canary("handoff description"),
                message=canary("handoff message"),
            )
        ],
        max_tool_iterations=5,
    )
    return Swarm([ann, AssistantAgent("bob", model)], max_turns=2)


def history(canary: Canaries) -> list[Any]:
    """What an app sends to a client by itself."""
    arguments = f'{{"to": "{canary("call arguments")}"}}'
    result = FunctionExecutionResult(
        content=canary("result"), name="send", call_id="c1", is_error=False
    )
    return [
        SystemMessage(content=canary("own system")),
        UserMessage(content=canary("own question"), source="user"),
        AssistantMessage(
            content=[FunctionCall(id="c1", name="send", arguments=arguments)],
            thought=canary("thought"),
            source="bot",
        ),
        FunctionExecutionResultMessage(content=[result]),
    ]


async def talk(app: Any, model: Any, canary: Canaries) -> None:
    metadata = {canary("message key"): canary("message metadata")}
    task = TextMessage(content=canary("question"), source="user", metadata=metadata)
    with ce_session("s"):
        await app.run(task=task)
        await model.create(history(canary))


class TestCanaries(CanaryTests):
    @pytest.mark.req("B-02")
    async def test_no_canary_is_left(
        self, client: Any, engine: ContextEngine, canary: Canaries, places: Places
    ) -> None:
        script = [
            tool_calls([("send", {"to": canary("tool args")})]),
            tool_calls([("send", {"to": "nobody"}), ("transfer_to_bob", {})]),
            *(text(canary("answer")) for _ in range(2)),
        ]
        with Wire(script) as wire:
            model = client(wire, multiple_system_messages=True)
            app = team(model, canary)
            with install_ce(app, engine=engine) as installation, install_ce(model, engine=engine):
                await talk(app, model, canary)
                assert installation.flush()
            assert wire.refusals == []
            assert len(wire.requests) == len(script)
        places.judge(canary, installation.last_report("s"))
