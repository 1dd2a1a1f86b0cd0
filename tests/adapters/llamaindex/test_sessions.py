"""Whose session a call is: what was said around it, tags, a memory's id; a default that all share is none."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.workflow import Context
from llama_index_instrumentation.dispatcher import instrument_tags

from ce_engine import Scope
from ce_integrations import ce_session
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex import shelf
from tests.adapters.llamaindex.releases import HAS, make_agent


pytestmark = pytest.mark.scenario(10)


def heard(body: Any) -> str:
    return f"heard: {body['messages'][-1]['content']}"


def run(runner: asyncio.Runner, agent: Any, question: str, **given: Any) -> str:
    async def asked() -> str:
        return str(await agent.run(question, **given))

    return str(runner.run(asked(), context=copy_context()))


def named(sessions: Any) -> list[str]:
    return sorted(each.session_id for each in sessions() if not each.ephemeral)


def test_the_memory_of_a_run_names_it(
    model: Any, runner: Any, engine: Any, stored: Any, sessions: Any
) -> None:
    with Wire(heard) as wire, install_ce(make_agent(model(wire), [], "S"), engine=engine) as ours:
        for held in (
            Memory.from_defaults(session_id="of Memory"),
            ChatMemoryBuffer.from_defaults(chat_store_key="of a buffer"),
        ):
            for question in ("one", "two"):
                run(runner, ours.target, question, memory=held)
            runner.run(shelf.close(held))
    assert named(sessions) == ["of Memory", "of a buffer"]
    for name in named(sessions):
        said = [m.content for m in stored(name).session.messages]
        assert said == ["one", "heard: one", "two", "heard: two"]


def test_a_key_that_all_share_names_nothing(
    model: Any, runner: Any, engine: Any, sessions: Any
) -> None:
    with Wire(heard) as wire, install_ce(make_agent(model(wire), [], "S"), engine=engine) as ours:
        for question in ("mine", "yours"):
            run(runner, ours.target, question, memory=ChatMemoryBuffer.from_defaults())
        assert all("mine" not in str(body) for body in wire.bodies[1:])
    assert [(each.ephemeral, each.messages) for each in sessions()] == [(True, 2), (True, 2)]


def test_what_is_said_around_wins(model: Any, runner: Any, engine: Any, sessions: Any) -> None:
    with Wire(heard) as wire, install_ce(make_agent(model(wire), [], "S"), engine=engine) as ours:
        held = ChatMemoryBuffer.from_defaults(chat_store_key="of the memory")
        with instrument_tags({"session_id": "of the tags", "user_id": "u"}):
            run(runner, ours.target, "tagged", memory=held)
            with ce_session("of the block"):
                run(runner, ours.target, "said", memory=held)
    assert named(sessions) == ["of the block", "of the tags"]
    assert {each.user_id for each in sessions()} == {"u"}


def test_tags_name_the_session_of_a_model(
    model: Any, call: Any, engine: Any, sessions: Any
) -> None:
    with Wire(heard) as wire, install_ce(model(wire), engine=engine) as ours:
        asked = [ChatMessage("q")]
        with instrument_tags({"session_id": "of the tags"}):
            call(ours.target, "achat", asked)
    assert named(sessions) == ["of the tags"]


@pytest.mark.parametrize("kind", [shelf.simple, shelf.context])
def test_a_chat_engine_s_memory_names_its_talk(
    kind: Any, way: str, model: Any, call: Any, engine: Any, sessions: Any
) -> None:
    with Wire(heard) as wire, install_ce(kind(model(wire)), engine=engine) as ours:
        call(ours.target, way, "one")
    assert named(sessions) == ["s"]


def test_what_is_said_where_a_run_begins_holds_in_all_of_it(
    model: Any, engine: Any, sessions: Any, runner: Any
) -> None:
    """Its handler is awaited when the block is left; four runs at once stay apart."""
    with Wire(heard) as wire, install_ce(make_agent(model(wire), [], "S"), engine=engine) as ours:

        async def four() -> None:
            begun = []
            for n in range(4):
                with ce_session(f"s{n}"):
                    begun.append(ours.target.run(f"words of {n}"))
            await asyncio.gather(*begun)

        runner.run(four())
    assert named(sessions) == ["s0", "s1", "s2", "s3"]
    for n in range(4):
        document = engine.loop.run(engine.store.get_session(Scope(session_id=f"s{n}")))
        assert [m.content for m in document.session.messages] == [
            f"words of {n}",
            f"heard: words of {n}",
        ]


def test_a_model_in_a_tool_has_the_session_of_its_run(
    model: Any, runner: Any, engine: Any, stored: Any, sessions: Any
) -> None:
    script = [tool_calls([("ask", {"word": "x"})]), text("inner"), text("outer")]
    with Wire(script) as wire:
        inner = model(wire)

        async def ask(word: str) -> str:
            """Ask."""
            return str(await inner.achat([ChatMessage(word)]))

        with install_ce(make_agent(model(wire), [ask], "S"), engine=engine) as ours:
            assert run(runner, ours.target, "q", memory=shelf.memory("talk")) == "outer"
    assert named(sessions) == ["talk"]
    assert engine.sync.flush()
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="talk")))
    assert len({turn.request_id for turn in turns}) == 1
    assert len({turn.lane for turn in turns}) == 2
    assert [str(m.content) for m in stored("talk").session.messages if m.role == "user"] == [
        "q",
        "x",
    ]


def test_a_model_in_a_tool_that_is_no_coroutine(
    model: Any, runner: Any, engine: Any, sessions: Any
) -> None:
    """Before 0.14 such a tool runs in no context: its model's calls are nobody's, and governed."""
    script = [tool_calls([("ask", {"word": "x"})]), text("inner"), text("outer")]
    with Wire(script) as wire:
        inner = model(wire)

        def ask(word: str) -> str:
            """Ask."""
            return str(inner.chat([ChatMessage(word)]))

        with install_ce(make_agent(model(wire), [ask], "S"), engine=engine) as ours:
            assert run(runner, ours.target, "q", memory=shelf.memory("talk")) == "outer"
    assert named(sessions) == ["talk"]
    assert len(sessions()) == (1 if HAS["tools_in_context"] else 2)


@pytest.mark.needs("contexts_that_remember")
def test_a_context_that_goes_on_is_one_talk(
    model: Any, runner: Any, engine: Any, sessions: Any
) -> None:
    with Wire(heard) as wire:
        agent = FunctionAgent(llm=model(wire))
        with install_ce(agent, engine=engine):
            held = Context(agent)
            for question in ("one", "two"):
                run(runner, agent, question, ctx=held)
            run(runner, agent, "another", ctx=Context(agent))
        assert len(wire.bodies[1]["messages"]) == 3
    assert sorted((each.ephemeral, each.messages) for each in sessions()) == [(True, 2), (True, 4)]


def test_a_memory_without_an_id_goes_on_with_its_own_talk(
    model: Any, runner: Any, engine: Any, sessions: Any
) -> None:
    """Recorded as one, and nothing is brought in."""
    with Wire(heard) as wire, install_ce(make_agent(model(wire), [], "S"), engine=engine) as ours:
        mine, yours = ChatMemoryBuffer.from_defaults(), ChatMemoryBuffer.from_defaults()
        for question in ("one", "two"):
            run(runner, ours.target, question, memory=mine)
        run(runner, ours.target, "three", memory=yours)
    assert sorted((each.ephemeral, each.messages) for each in sessions()) == [(True, 2), (True, 4)]
