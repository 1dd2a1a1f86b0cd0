"""What an agent says is an agent's, whatever of its team was installed, and who asked it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, UserProxyAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import SingleThreadedAgentRuntime

from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
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
