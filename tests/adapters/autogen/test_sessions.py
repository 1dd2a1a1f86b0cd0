"""Whose session a call belongs to: what the app says, its messages' metadata, a core agent's key, or nobody's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import AgentId, CancellationToken, SingleThreadedAgentRuntime
from autogen_core.memory import ListMemory, MemoryContent

from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.configurations import TASK, agent, agents
from tests.adapters.autogen.contract_apps import Ask, Core


pytestmark = pytest.mark.scenario(10)


def message(content: str, **metadata: str) -> TextMessage:
    return TextMessage(content=content, source="user", metadata=metadata)


async def test_the_metadata_of_a_message(client: Any, engine: Any, stored: Any) -> None:
    with Wire("Yes.") as wire:
        ann = agent("ann", client(wire))
        with install_ce(ann, engine=engine):
            await ann.run(task=message("one", session_id="s", user_id="li"))
    assert [content for *_, content in stored.said("s", "li")] == ["one", "Yes."]


async def test_the_metadata_of_a_team_s_task_reaches_every_agent(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire() as wire:
        team = RoundRobinGroupChat(agents(client(wire)), max_turns=3)
        with install_ce(team, engine=engine):
            await team.run(task=message(TASK, session_id="s"))
    assert len(stored.turns()) == 3
    assert len(stored.sessions()) == 1


async def test_the_innermost_wins(client: Any, engine: Any, stored: Any) -> None:
    with Wire("Yes.") as wire:
        ann = agent("ann", client(wire))
        with install_ce(ann, engine=engine, session_id="installed"):
            await ann.run(task=message("one", session_id="told"))
            with ce_session("said"):
                await ann.run(task=message("two", session_id="told"))
    assert {info.session_id for info in stored.sessions()} == {"installed", "said"}


@pytest.mark.parametrize(("key", "named"), [("u1", True), ("default", False)])
async def test_a_core_agent_s_key(
    client: Any, engine: Any, stored: Any, key: str, named: bool
) -> None:
    with Wire("Yes.") as wire:
        model, runtime = client(wire), SingleThreadedAgentRuntime()
        with install_ce(runtime, engine=engine):
            await Core.register(runtime, "core", lambda: Core(model))
            runtime.start()
            await runtime.send_message(Ask("one"), AgentId("core", key))
            await runtime.stop_when_idle()
    (session,) = stored.sessions()
    assert (session.session_id == key) is named
    assert session.ephemeral is not named


async def test_a_runtime_of_the_app_s_own(client: Any, engine: Any, stored: Any) -> None:
    """Its tasks began before the app said whose session it is."""
    with Wire() as wire:
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
        team = RoundRobinGroupChat(agents(client(wire)), max_turns=3, runtime=runtime)
        with install_ce(team, engine=engine):
            for session_id in ("s", "t"):
                with ce_session(session_id):
                    await team.run(task=f"of {session_id}")
        await runtime.stop()
        assert len(wire.bodies) == 6
    for session_id in ("s", "t"):
        assert [turn.lane.rpartition("/")[2] for turn in stored.turns(session_id)] == [
            "ann",
            "bob",
            "cid",
        ]
    assert len(stored.sessions()) == 2


async def test_many_agents_at_once_never_mix(client: Any, engine: Any, stored: Any) -> None:
    def answer(body: Any) -> str:
        return f"heard {body['messages'][-1]['content']}"

    with Wire(answer) as wire:
        apps = [agent("ann", client(wire)) for _ in range(20)]
        installed = [install_ce(app, engine=engine) for app in apps]

        async def talk(n: int) -> None:
            with ce_session(f"s{n}"):
                for turn in range(2):
                    await apps[n].run(task=f"person-{n:02} says {turn}")

        await asyncio.gather(*map(talk, range(20)))
        for each in installed:
            each.uninstall()
        bodies = [str(body) for body in wire.bodies]
    assert len(bodies) == 40
    for body in bodies:
        assert len({n for n in range(20) if f"person-{n:02}" in body}) == 1
    for n in range(20):
        assert [content for *_, content in stored.said(f"s{n}")] == [
            words
            for turn in range(2)
            for words in (f"person-{n:02} says {turn}", f"heard person-{n:02} says {turn}")
        ]


async def test_where_nobody_names_a_session_an_agent_goes_on_with_its_own(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire() as wire:
        ann, bob = agent("ann", client(wire)), agent("bob", client(wire))
        with install_ce(ann, engine=engine), install_ce(bob, engine=engine):
            await ann.run(task="one")
            await bob.run(task="of another")
            await ann.run(task="two")
        contents = [[m["content"] for m in body["messages"]] for body in wire.bodies]
    sessions = stored.sessions()
    assert [info.ephemeral for info in sessions] == [True, True]
    assert sorted(info.messages for info in sessions) == [2, 4]
    assert "of another" not in str(contents[0] + contents[2])


async def test_an_agent_that_is_reset_begins_a_session(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire() as wire:
        ann = agent("ann", client(wire))
        with install_ce(ann, engine=engine):
            await ann.run(task="one")
            await ann.on_reset(CancellationToken())
            await ann.run(task="two")
    assert sorted(info.messages for info in stored.sessions()) == [2, 2]


@pytest.mark.parametrize("loads", [False, True])
@pytest.mark.parametrize("in_team", [False, True])
async def test_what_a_memory_finds_after_a_reset_is_of_the_new_talk(
    in_team: bool, loads: bool, client: Any, engine: Any, stored: Any
) -> None:
    """It is asked before the model is, and there is no list yet that shows a new talk."""
    with Wire() as wire:
        shelf = ListMemory("shelf")
        ann = AssistantAgent("ann", client(wire, multiple_system_messages=True), memory=[shelf])
        team = RoundRobinGroupChat([ann], max_turns=1)
        app = team if in_team else ann
        empty = await app.save_state()
        with install_ce(app, engine=engine):
            await shelf.add(MemoryContent(content="likes tea", mime_type="text/plain"))
            await app.run(task="I am Alice")
            if loads:
                await app.load_state(empty)
            else:
                await (team.reset() if in_team else ann.on_reset(CancellationToken()))
            await shelf.clear()
            await shelf.add(MemoryContent(content="likes coffee", mime_type="text/plain"))
            await app.run(task="I am Bob")
            await app.run(task="Still Bob")
    found = {}
    for each in stored.sessions():
        document = stored.document(each.session_id)
        said = [m.content for m in document.session.messages if m.role == "user"]
        hits = (e for e in document.evidences.values() if e.source.kind == "rag")
        found[tuple(said)] = {hit.content for hit in hits}
    assert found == {("I am Alice",): {"likes tea"}, ("I am Bob", "Still Bob"): {"likes coffee"}}
