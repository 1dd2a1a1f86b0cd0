"""Whose a call is: of an agent, a kernel or a service, many at once, with an id of a thread or without."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatHistoryAgentThread
from semantic_kernel.functions import KernelArguments, kernel_function

from ce_engine import Scope, UnsupportedTargetError
from ce_integrations import ce_session
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.semantic_kernel.configurations import agent


RULE = "Say no more than is asked. 少说。"


def heard(body: Any) -> str:
    return f"heard: {body['messages'][-1]['content']}"


@pytest.mark.scenario(7)
@pytest.mark.req("A-23")
async def test_two_agents_on_one_service_are_kept_apart(
    service: Any, engine: Any, stored: Any
) -> None:
    engine.sync.constraints.create(Scope(session_id="any"), RULE)
    with Wire(heard) as wire:
        made = service(wire)
        ann, bob = agent("ann", made), agent("bob", made)
        with install_ce(ann, engine=engine), ce_session("s"):
            await asyncio.gather(ann.get_response("From ann"), bob.get_response("From bob"))
            said = [str(piece) async for piece in bob.invoke_stream("From bob again")]
        assert "".join(said) == "heard: From bob again"
        asked = {body["messages"][-1]["content"]: str(body) for body in wire.bodies}
    assert {words: RULE in body for words, body in asked.items() if "bob" in words} == {
        "From bob": False,
        "From bob again": False,
    }
    assert sum(RULE in body for body in asked.values()) == 1
    assert len(stored.turns()) == 1
    assert stored.said()[-1] == ("ann", "heard: From ann")


@pytest.mark.scenario(8)
@pytest.mark.req("A-23")
async def test_services_that_come_later_and_kernels_that_are_given(
    service: Any, engine: Any, stored: Any
) -> None:
    with Wire(heard) as wire:
        kernel, other = Kernel(), Kernel(services=[service(wire)])
        ann = agent("ann", service(wire))
        with install_ce(kernel, engine=engine), install_ce(ann, engine=engine), ce_session("s"):
            kernel.add_service(service(wire))
            assert str(await kernel.invoke_prompt("one")) == "heard: one"
            assert str(await kernel.clone().invoke_prompt("not ours")) == "heard: not ours"
            assert str(await ann.get_response("two", kernel=other)) == "heard: two"
            assert str(await other.invoke_prompt("not ours either"))
        assert len(wire.bodies) == 4
    assert [content for _, content in stored.said()] == ["one", "heard: one", "two", "heard: two"]


@pytest.mark.scenario(9)
@pytest.mark.req("A-23")
async def test_twenty_threads_of_one_agent_at_once(service: Any, engine: Any, stored: Any) -> None:
    with Wire(heard) as wire:
        ann = agent("ann", service(wire))

        async def talk(user: int) -> None:
            thread = ChatHistoryAgentThread(thread_id=f"user-{user}")
            for n in range(3):
                await ann.get_response(f"user-{user}. says {n}", thread=thread)

        with install_ce(ann, engine=engine):
            await asyncio.gather(*map(talk, range(20)))
    for user in range(20):
        words = [content for _, content in stored.said(f"user-{user}")]
        asked = [f"user-{user}. says {n}" for n in range(3)]
        assert words == [each for one in asked for each in (one, f"heard: {one}")]


@pytest.mark.req("A-23")
async def test_what_is_said_wins_over_arguments_and_those_over_the_thread(
    service: Any, engine: Any, stored: Any
) -> None:
    with Wire(heard) as wire:
        ann, kernel = agent("ann", service(wire)), Kernel(services=[service(wire)])
        thread = ChatHistoryAgentThread(thread_id="of the thread")
        told = KernelArguments(session_id="of the arguments", user_id="ann")
        with install_ce(ann, engine=engine), install_ce(kernel, engine=engine):
            await ann.get_response("one", thread=thread)
            await ann.get_response("two", thread=ChatHistoryAgentThread(), arguments=told)
            await kernel.invoke_prompt("three", session_id="of the kernel")
            with ce_session("said"):
                await ann.get_response("four", thread=thread)
    named = [(each.session_id, each.user_id) for each in stored.sessions() if not each.ephemeral]
    assert sorted(named) == [
        *(("of the arguments", "ann"), ("of the kernel", ""), ("of the thread", ""), ("said", ""))
    ]


@pytest.mark.req("A-23")
async def test_a_thread_that_nobody_named_is_a_session_of_its_own(
    service: Any, engine: Any, stored: Any
) -> None:
    with Wire(heard) as wire:
        ann = agent("ann", service(wire))
        with install_ce(ann, engine=engine):
            first = await ann.get_response("one")
            await ann.get_response("two", thread=first.thread)
            await ann.get_response("another's")
    sessions = stored.sessions()
    assert [each.ephemeral for each in sessions] == [True, True]
    talks = sorted([each[1] for each in stored.said(s.session_id)] for s in sessions)
    assert talks == [
        ["another's", "heard: another's"],
        ["one", "heard: one", "two", "heard: two"],
    ]


def test_what_cannot_be_governed_is_refused(engine: Any) -> None:
    with pytest.raises(UnsupportedTargetError):
        install_ce(ChatHistoryAgentThread(), engine=engine)


@pytest.mark.scenario(9)
@pytest.mark.req("A-23", "B-03")
async def test_what_a_model_gives_a_function_names_nobody(
    service: Any, engine: Any, stored: Any
) -> None:
    """A parameter of a tool may be called `user_id`: it says whom the model asks about, not who asks."""
    engine.sync.constraints.create(Scope(session_id="main", user_id="ada"), RULE)
    script = [tool_calls([("shop-lookup", {"user_id": "ada"})]), text("Nothing."), text("So.")]
    with Wire(script) as wire:
        made = service(wire)
        helper = agent("helper", made)

        class Shop:
            @kernel_function
            async def lookup(self, user_id: str) -> str:
                """Look a user up."""
                return str(await helper.get_response(f"What of {user_id}?"))

        desk = agent("desk", made)
        desk.kernel.add_plugin(Shop(), "shop")
        told = KernelArguments(session_id="main", user_id="eve")
        with install_ce(desk, engine=engine), install_ce(helper, engine=engine):
            await desk.get_response("Look Ada up.", arguments=told)
        assert [RULE in str(body) for body in wire.bodies] == [False] * 3
    users = await engine.list_sessions(user_id=None, ephemeral=True)
    assert [each.user_id for each in users] == ["eve"]
