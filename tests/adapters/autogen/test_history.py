"""What was said in the session before goes in where the app asks for it, and never ahead of a cache."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.cache import ChatCompletionCache

from ce_engine import ConfigError
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire


def lengths(wire: Wire) -> list[int]:
    return [len(body["messages"]) for body in wire.bodies]


def said(words: str) -> list[Any]:
    return [UserMessage(content=words, source="user")]


@pytest.mark.parametrize("history", [None, True])
async def test_a_client_alone_sends_its_own_messages(
    client: Any, engine: Any, history: bool | None
) -> None:
    async def ask(model: Any) -> None:
        with ce_session("s", history=history):
            for words in ("one", "two"):
                await model.create(said(words))

    with Wire("yes") as wire:
        model = client(wire)
        with install_ce(model, engine=engine):
            await ask(model)
        assert lengths(wire) == [1, 1]
        with pytest.raises(ConfigError, match="holds no conversation"):
            install_ce(model, engine=engine, history=True)


@pytest.mark.parametrize("history", [None, True])
async def test_a_cache_hits_as_in_the_bare_app(
    client: Any, engine: Any, history: bool | None
) -> None:
    """A client with a cache, alone and in an agent that is made for each request."""

    async def ask(cache: Any) -> None:
        with ce_session("s", history=history):
            for words in ("one", "two", "one"):
                await cache.create(said(words))

    async def run(cache: Any) -> None:
        for words in ("three", "four", "three"):
            agent = AssistantAgent("ann", cache, system_message="S")
            with install_ce(agent, engine=engine, history=history), ce_session("s"):
                await agent.run(task=words)

    with Wire("yes") as wire:
        cache = ChatCompletionCache(client(wire))
        with install_ce(cache, engine=engine):
            await ask(cache)
        assert lengths(wire) == [1, 1]
        wire.reset()
        await run(cache)
        assert lengths(wire) == [2, 2]


@pytest.mark.parametrize(("history", "sent"), [(None, [2, 2]), (True, [2, 4])])
async def test_an_agent_that_is_made_anew(
    client: Any, engine: Any, history: bool | None, sent: list[int]
) -> None:
    async def run(model: Any) -> None:
        for words in ("one", "two"):
            agent = AssistantAgent("ann", model, system_message="S")
            with install_ce(agent, engine=engine, history=history), ce_session("s"):
                await agent.run(task=words)

    with Wire("yes") as wire:
        await run(client(wire))
        assert lengths(wire) == sent


async def test_what_a_tool_asks_is_no_conversation(client: Any, engine: Any) -> None:
    script = [tool_calls([("ask", {"word": "x"})]), text("inner"), text("outer")]
    with Wire(script * 2) as wire:
        inner = client(wire)

        async def ask(word: str) -> str:
            return str((await inner.create(said(word))).content)

        tool = FunctionTool(ask, "Ask.", name="ask")

        async def run(model: Any) -> None:
            for words in ("one", "two"):
                agent = AssistantAgent("ann", model, tools=[tool], reflect_on_tool_use=True)
                with install_ce(agent, engine=engine, history=True), ce_session("s"):
                    await agent.run(task=words)

        await run(client(wire))
        assert [lengths(wire)[n] for n in (1, 4)] == [1, 1]
