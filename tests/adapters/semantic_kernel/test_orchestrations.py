"""Orchestrations work in a runtime's tasks: each call is prepared, in the session of who asked, by its author."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from semantic_kernel.agents.runtime import InProcessRuntime

from ce_integrations import ce_session
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.semantic_kernel.configurations import CONFIGURATIONS, TASK


SPEAKERS = {
    "sequential": ["writer", "critic"],
    "concurrent": ["critic", "writer"],
    "group chat": ["writer", "critic", "writer"],
    "handoff": ["writer", "critic"],
    "magentic": ["MagenticManagerActor", "MagenticManagerActor", "critic"],
}
ASIDES = {"magentic": 5}
"""Calls of a manager: facts, plan, two ledgers and the last word."""


@pytest.mark.scenario(6)
@pytest.mark.req("A-23", "B-16")
@pytest.mark.parametrize("name", SPEAKERS)
async def test_each_call_is_prepared_and_each_word_has_its_author(
    name: str, service: Any, engine: Any, stored: Any
) -> None:
    """The runtime was started before, where nobody had said whose session it is."""
    wanted, runtime = CONFIGURATIONS[name], InProcessRuntime()
    runtime.start()
    numbers = iter(range(100))
    script = (
        (lambda _: f"{next(numbers)}: a line. 一条线")
        if isinstance(wanted.script, str)
        else wanted.script
    )
    with Wire(script) as wire:
        app = wanted.make(service(wire))
        with install_ce(app, engine=engine):
            with ce_session("s"):
                result = await app.invoke(task=TASK, runtime=runtime)
            await result.get(timeout=20)
            await runtime.stop_when_idle()
        assert wire.refusals == []
        sent = len(wire.bodies)
    turns = stored.turns()
    assert len(turns) == sent
    assert {turn.status for turn in turns} == {"committed"}
    helpers = [turn for turn in turns if turn.purpose == "helper"]
    assert len(helpers) == ASIDES.get(name, 0)
    said = [m for m in stored.document().session.messages if m.role == "assistant"]
    authors = [m.author.id if m.author else "" for m in said]
    assert (sorted(authors) if name == "concurrent" else authors) == SPEAKERS[name]
    assert len({turn.request_id for turn in turns}) == 1
    assert [each.session_id for each in stored.sessions()] == ["s"]


@pytest.mark.req("A-23")
async def test_two_runs_at_once_never_mix(service: Any, engine: Any, stored: Any) -> None:

    runtime = InProcessRuntime()
    runtime.start()
    with Wire(lambda body: f"heard: {body['messages'][1]['content']}") as wire:
        app = CONFIGURATIONS["sequential"].make(service(wire))

        async def run(person: str) -> None:
            with ce_session(person):
                result = await app.invoke(task=f"{person} asks", runtime=runtime)
            await result.get(timeout=20)

        with install_ce(app, engine=engine):
            await asyncio.gather(run("ann"), run("李雷"))
            await runtime.stop_when_idle()
    for person in ("ann", "李雷"):
        words = [content for _, content in stored.said(person)]
        assert words[:2] == [f"{person} asks", f"heard: {person} asks"]
        assert all(person in each for each in words)


PEOPLE = ("Anna", "Bert", "李雷")


@pytest.mark.req("A-24", "B-03")
async def test_what_a_manager_asks_first_is_in_the_run_that_asked(
    service: Any, engine: Any, stored: Any
) -> None:
    """Nobody named a session: the newest one of the orchestration was that of who asked before."""
    wanted, runtime = CONFIGURATIONS["magentic"], InProcessRuntime()
    runtime.start()
    with Wire(wanted.script) as wire:
        app = wanted.make(service(wire))
        with install_ce(app, engine=engine):
            for name in PEOPLE:
                result = await app.invoke(task=f"What of {name}?", runtime=runtime)
                await result.get(timeout=20)
            await runtime.stop_when_idle()
    assert sorted(stored.people_in(PEOPLE)) == [[name] for name in PEOPLE]
    assert len({len(stored.turns(each.session_id)) for each in stored.sessions()}) == 1
