"""Whose session it is in a core runtime: who sent the message says so, wherever the runtime was started."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
    TypeSubscription,
    message_handler,
)
from autogen_core.models import SystemMessage, UserMessage
from autogen_core.tool_agent import ToolAgent

from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.autogen.contract_apps import Ask
from tests.adapters.autogen.test_core import TOOLS, Looking


pytestmark = pytest.mark.req("A-23", "A-24")

USERS = ("alice", "bob", "carl")


class Passing(RoutedAgent):
    """Asks a model and then another agent, by a message or to all who hear a topic."""

    def __init__(self, client: Any, to: str, *, published: bool = False) -> None:
        super().__init__("passes on")
        self.client, self.to, self.published = client, to, published

    @message_handler
    async def ask(self, message: Ask, context: MessageContext) -> str:
        said = [SystemMessage(content="Pass on."), UserMessage(content=message.text, source="user")]
        answer = Ask(f"passed {(await self.client.create(said)).content}")
        if self.published:
            await self.publish_message(answer, TopicId(self.to, self.id.key))
            return ""
        return str(await self.send_message(answer, AgentId(self.to, self.id.key)))


class Answering(RoutedAgent):
    """Asks a model with the message alone, and keeps nothing."""

    def __init__(self, client: Any) -> None:
        super().__init__("answers")
        self.client = client

    @message_handler
    async def ask(self, message: Ask, context: MessageContext) -> str:
        said = [UserMessage(content=message.text, source="user")]
        return str((await self.client.create(said)).content)


class Noting(RoutedAgent):
    """Keeps what it is told of each message."""

    told: list[MessageContext]

    def __init__(self) -> None:
        super().__init__("notes")
        self.told = []

    @message_handler
    async def ask(self, message: Ask, context: MessageContext) -> str:
        self.told.append(context)
        return message.text


def echo(body: Any) -> str:
    return f"heard {body['messages'][-1]['content']}"


def words(stored: Any) -> dict[tuple[str, str], list[str]]:
    """What was said in each session, by its id and its user."""
    return {
        (each.session_id, each.user_id): [
            content for *_, content in stored.said(each.session_id, each.user_id)
        ]
        for each in stored.sessions()
    }


@pytest.mark.parametrize("started", ["in the first block", "outside", "in the first, all at once"])
@pytest.mark.parametrize("key", ["default", "all"])
async def test_the_block_round_a_message_wins(
    started: str, key: str, client: Any, engine: Any, stored: Any
) -> None:
    with Wire(echo) as wire:
        model, runtime = client(wire), SingleThreadedAgentRuntime()

        async def ask(user: str) -> None:
            with ce_session(user, user_id=user):
                if user == "alice" and started != "outside":
                    runtime.start()
                await runtime.send_message(Ask(f"I am {user}"), AgentId("core", key))

        with install_ce(runtime, engine=engine):
            await Answering.register(runtime, "core", lambda: Answering(model))
            if started == "outside":
                runtime.start()
            if started.endswith("once"):
                await asyncio.gather(*map(ask, USERS))
            else:
                for user in USERS:
                    await ask(user)
            await runtime.send_message(Ask("I am nobody"), AgentId("core", "k"))
            await runtime.stop_when_idle()
    users = {(user, user): [f"I am {user}", f"heard I am {user}"] for user in USERS}
    assert words(stored) == {**users, ("k", ""): ["I am nobody", "heard I am nobody"]}


async def test_agents_that_send_to_agents_stay_in_the_sender_s_session(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire(echo) as wire:
        model, runtime = client(wire), SingleThreadedAgentRuntime()
        with install_ce(runtime, engine=engine):
            await Passing.register(runtime, "front", lambda: Passing(model, "middle"))
            await Passing.register(runtime, "middle", lambda: Passing(model, "back"))
            await Answering.register(runtime, "back", lambda: Answering(model))

            async def ask(user: str) -> None:
                with ce_session(user, user_id=user):
                    if user == "alice":
                        runtime.start()
                    await runtime.send_message(Ask(f"I am {user}"), AgentId("front", "default"))

            await asyncio.gather(*map(ask, USERS))
            await runtime.stop_when_idle()
    assert {named: len(said) for named, said in words(stored).items()} == {
        (user, user): 6 for user in USERS
    }
    for user in USERS:
        assert all(f"I am {user}" in content for *_, content in stored.said(user, user))
        lanes = [turn.lane for turn in stored.turns(user, user)]
        assert lanes == ["front", "front/middle", "front/middle/back"]
        assert len({turn.request_id for turn in stored.turns(user, user)}) == 1


async def test_all_who_hear_a_topic_are_in_the_publisher_s_session(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire(echo) as wire:
        model, runtime = client(wire), SingleThreadedAgentRuntime()
        with install_ce(runtime, engine=engine):
            make = lambda: Passing(model, "next", published=True)  # noqa: E731 - a factory
            for name in ("one", "two"):
                await Passing.register(runtime, name, make)
                await runtime.add_subscription(TypeSubscription("first", name))
            await Answering.register(runtime, "core", lambda: Answering(model))
            await runtime.add_subscription(TypeSubscription("next", "core"))
            for user in USERS:
                with ce_session(user, user_id=user):
                    if user == "alice":
                        runtime.start()
                    await runtime.publish_message(Ask(f"I am {user}"), TopicId("first", "all"))
            await runtime.stop_when_idle()
        assert len(wire.bodies) == 12
    assert set(words(stored)) == {(user, user) for user in USERS}
    for user in USERS:
        assert all(f"I am {user}" in content for *_, content in stored.said(user, user))
        lanes = sorted(turn.lane for turn in stored.turns(user, user))
        assert lanes == ["core", "core", "one", "two"]


async def test_a_client_alone_is_asked_in_the_sender_s_session(
    client: Any, engine: Any, stored: Any
) -> None:
    """The runtime is not installed: who holds the client is governed all the same."""
    with Wire(echo) as wire:
        model, runtime = client(wire), SingleThreadedAgentRuntime()
        await Answering.register(runtime, "core", lambda: Answering(model))
        with install_ce(model, engine=engine):
            for user in USERS:
                with ce_session(user, user_id=user):
                    if user == "alice":
                        runtime.start()
                    await runtime.send_message(Ask(f"I am {user}"), AgentId("core", "default"))
        await runtime.stop_when_idle()
    assert set(words(stored)) == {(user, user) for user in USERS}


async def test_tools_of_questions_at_once_stay_in_their_sessions(
    client: Any, engine: Any, stored: Any
) -> None:
    """Nobody named a session; a run of a tool is in that of the question, and only there."""

    def answer(body: Any) -> Any:
        last = body["messages"][-1]
        asked = last["role"] == "user"
        return tool_calls([("lookup", {"word": last["content"]})]) if asked else text("A line.")

    with Wire(answer) as wire:
        model, runtime = client(wire), SingleThreadedAgentRuntime()
        with install_ce(runtime, engine=engine):
            await Looking.register(runtime, "looking", lambda: Looking(model))
            await ToolAgent.register(runtime, "tools", lambda: ToolAgent("runs tools", TOOLS))
            runtime.start()
            to = AgentId("looking", "default")
            await asyncio.gather(*(runtime.send_message(Ask(f"q{n}"), to) for n in range(3)))
            await runtime.stop_when_idle()
    found = {
        stored.said(each.session_id)[0][2]: stored.runs(each.session_id)
        for each in stored.sessions()
    }
    assert found == {f"q{n}": [("lookup", {"word": f"q{n}"}, "success")] for n in range(3)}


async def test_an_agent_that_hands_its_message_to_an_object_of_its_own(
    client: Any, engine: Any, stored: Any
) -> None:
    """No runtime is between them: it is the same step, one name deeper."""

    class Outer(RoutedAgent):
        def __init__(self, inner: Answering) -> None:
            super().__init__("hands on")
            self.inner = inner

        @message_handler
        async def ask(self, message: Ask, context: MessageContext) -> str:
            with ce_session("of the inner one"):
                return str(await self.inner.on_message(message, context))

    with Wire(echo) as wire:
        model, runtime = client(wire), SingleThreadedAgentRuntime()
        with install_ce(runtime, engine=engine):
            inner = Answering(model)
            await inner.bind_id_and_runtime(AgentId("inner", "i"), runtime)
            await Outer.register(runtime, "outer", lambda: Outer(inner))
            runtime.start()
            with ce_session("s"):
                await runtime.send_message(Ask("hello"), AgentId("outer", "k"))
            await runtime.stop_when_idle()
    assert [turn.lane for turn in stored.turns("of the inner one")] == ["outer/inner"]


async def test_a_message_s_id_stays_what_it_is(engine: Any) -> None:
    runtime = SingleThreadedAgentRuntime()
    with install_ce(runtime, engine=engine):
        await Noting.register(runtime, "noting", Noting)
        runtime.start()
        to = AgentId("noting", "k")
        for message_id in ("mine", None, "mine"):
            with ce_session("s"):
                await runtime.send_message(Ask("hello"), to, message_id=message_id)
        await runtime.stop_when_idle()
    agent = await runtime.try_get_underlying_agent_instance(to, Noting)
    first, second, third = (context.message_id for context in agent.told)
    assert (first, third) == ("mine", "mine")
    assert len(second) == 36
    for each in (first, second):
        kept = copy.deepcopy(each)
        assert type(kept) is str
        assert kept == each
