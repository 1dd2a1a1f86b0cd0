"""What an agent says is an agent's, whatever of its team was installed, and who asked it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, UserProxyAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core import SingleThreadedAgentRuntime
from autogen_core.tools import FunctionTool

from ce_engine import BudgetConfig, RuntimeConfig
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.answers import Answer, text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.configurations import TASK, agent, selects


pytestmark = pytest.mark.req("B-16")

USER = ("user", "user")


class Robot(BaseChatAgent):
    """An agent without a model."""

    def __init__(self) -> None:
        super().__init__("robot", "says beep")

    @property
    def produced_message_types(self) -> Any:
        return (TextMessage,)

    async def on_messages(self, messages: Any, cancellation_token: Any) -> Response:
        return Response(chat_message=TextMessage(content="beep", source="robot"))

    async def on_reset(self, cancellation_token: Any) -> None:
        """It keeps nothing."""


def members(client: Any) -> list[Any]:
    eve = UserProxyAgent("eve", input_func=lambda _: "I mean the other one.")
    return [agent("ann", client), Robot(), eve]


@pytest.mark.parametrize(
    "target", [lambda bob: bob, lambda bob: bob._model_client], ids=["agent", "client"]
)
async def test_one_agent_of_a_team_that_is_not_installed(
    target: Callable[[AssistantAgent], Any], client: Any, engine: Any, stored: Any
) -> None:
    with Wire() as wire:
        bob = agent("bob", client(wire))
        team = RoundRobinGroupChat([*members(client(wire)), bob], max_turns=4)
        with install_ce(target(bob), engine=engine) as installation, ce_session("s"):
            await team.run(task=TASK)
        assert installation.faults == ()
    assert [each[:2] for each in stored.said()] == [
        USER,
        ("agent", "ann"),
        ("agent", "robot"),
        ("user", "eve"),
        ("agent", "bob"),
    ]


@pytest.mark.needs("team_names")
async def test_an_agent_beside_a_team_that_is_not_installed(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire() as wire:
        dan = agent("dan", client(wire))
        inner = RoundRobinGroupChat(members(client(wire)), max_turns=3, name="inner")
        team = RoundRobinGroupChat([inner, dan], max_turns=2, name="outer")
        with install_ce(dan, engine=engine), ce_session("s"):
            await team.run(task=TASK)
    said = {content: (kind, name) for kind, name, content in stored.said()}
    assert said["beep"] == ("agent", "robot")
    assert said["I mean the other one."] == ("user", "eve")
    assert {each[:2] for each in stored.said() if each[0] == "user"} == {USER, ("user", "eve")}


async def test_an_agent_without_a_model_in_a_runtime(client: Any, engine: Any, stored: Any) -> None:
    with Wire(selects) as wire:
        runtime = SingleThreadedAgentRuntime()
        with install_ce(runtime, engine=engine) as installation, ce_session("s"):
            runtime.start()
            bob = agent("bob", client(wire))
            team = RoundRobinGroupChat([*members(client(wire)), bob], max_turns=5, runtime=runtime)
            await team.run(task=TASK)
            await runtime.stop_when_idle()
        assert installation.faults == ()
    said = {content: (kind, name) for kind, name, content in stored.said()}
    assert said["beep"] == ("agent", "robot")
    assert said["I mean the other one."] == ("user", "eve")


# What is asked through a tool


def asks(words: str) -> Answer:
    return tool_calls([("expert", {"task": words})])


async def ask_an_expert(make: Any, client: Any, engine: Any, **settings: Any) -> list[Any]:
    """A boss asks an expert twice through a tool, and a person asks the expert afterwards."""
    script = [asks("Say A."), text("A."), asks(TASK), text("B."), text("Done."), text("C.")]
    with Wire(script) as wire:
        model = client(wire)
        expert = agent("expert", model)
        boss = agent("boss", model, tools=[make(expert)], max_tool_iterations=5)
        if engine is not None:
            for each in (boss, expert):
                install_ce(each, engine=engine, **settings)
        with ce_session("s"):
            await boss.run(task=TASK)
            await expert.run(task="Say A.")
        assert wire.refusals == []
        return wire.bodies


def by_hand(expert: AssistantAgent) -> Any:
    async def ask(task: str) -> str:
        """Ask the expert."""
        result = await expert.run(task=f"Please answer: {task}")
        return result.messages[-1].to_text()

    return FunctionTool(ask, "Ask the expert.", name="expert")


@pytest.mark.parametrize("make", [AgentTool, by_hand])
async def test_who_asks_through_a_tool_is_no_person(
    make: Any, client: Any, engine: Any, stored: Any
) -> None:
    plain = await ask_an_expert(make, client, None)
    assert await ask_an_expert(make, client, engine) == plain
    said = [(kind, name) for kind, name, content in stored.said() if "Say A." in content]
    assert said == [("agent", "boss"), USER]
    asked = [(kind, name) for kind, name, content in stored.said() if TASK in content]
    assert asked == [USER, ("agent", "boss")], "the same words, from a person and from an agent"


async def test_what_is_asked_through_a_tool_stays(client: Any, engine: Any, stored: Any) -> None:
    """It is the expert's task: over the budget, older ones go."""
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=500, reserved_reply_tokens=0))
    tasks = [f"ask-{n}. " + "Mind these rules. " * 30 for n in range(5)]
    answers = [each for task in tasks for each in (asks(task), text("Yes."))]
    with Wire([*answers, text("Done.")]) as wire:
        expert = agent("expert", client(wire))
        boss = agent("boss", client(wire), tools=[AgentTool(expert)], max_tool_iterations=9)
        with install_ce(boss, engine=engine, config=config) as installation, ce_session("s"):
            await boss.run(task=TASK)
        assert (installation.faults, wire.refusals) == ((), [])
        bodies = [b for b in wire.bodies if "You are expert." in str(b["messages"][0])]
    assert [f"ask-{n}." in str(body) for n, body in enumerate(bodies)] == [True] * 5
    sent = [str(message["content"]) for message in bodies[-1]["messages"]]
    assert not any(content.startswith("ask-0.") for content in sent), "quoted it may come back"
    assert {m.get("name") for body in bodies for m in body["messages"] if m["role"] == "user"} == {
        "user"
    }
    assert [each[:2] for each in stored.said() if each[0] == "user"] == [USER]


async def test_a_team_asked_through_a_tool(client: Any, engine: Any, stored: Any) -> None:
    with Wire([asks("Say A."), text("ann's"), text("bob's"), text("Done.")]) as wire:
        model = client(wire)
        team = RoundRobinGroupChat([agent("ann", model), agent("bob", model)], max_turns=2)
        tool = TeamTool(team, name="expert", description="answers")
        boss = agent("boss", model, tools=[tool], max_tool_iterations=5)
        with install_ce(boss, engine=engine) as installation, ce_session("s"):
            await boss.run(task=TASK)
        assert (installation.faults, wire.refusals) == ((), [])
    said = {content: (kind, name) for kind, name, content in stored.said()}
    assert said["Say A."] == ("agent", "boss")
    assert (said["ann's"], said["bob's"]) == (("agent", "ann"), ("agent", "bob"))
    assert said[TASK] == USER
