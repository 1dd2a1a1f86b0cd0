"""Tools and retrievers of a framework that tells nobody of them, and no ids: each run is recorded once, with its call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ce_engine import (
    ContextEngine,
    MemoryStore,
    Scope,
    ToolCall,
    ToolCallStatus,
    create_context_engine,
)
from ce_integrations.calls.agent_steps import deeper, stepping
from ce_integrations.calls.tool_methods import Outcome, ToolRecorder
from tests.adapters.silent_tools import (
    PATCHES,
    TOOLS,
    Agent,
    AgentAdapter,
    Asks,
    Loud,
    Note,
    Shelf,
    Tool,
    owner,
    tool_run,
)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def runs(engine: ContextEngine) -> list[ToolCall]:
    assert engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    assert found is not None
    return found.session.tool_state.tool_calls


def results(engine: ContextEngine, run: ToolCall) -> list[str]:
    found = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    assert found is not None
    return [found.evidences[name].content or "" for name in run.result_evidence_ids]


Play = Callable[[Agent], Any]


def played(engine: ContextEngine, agent: Agent, play: Play) -> Any:
    """Let an agent play, in its step."""
    with AgentAdapter().install_ce(agent, engine=engine) as installed:
        with stepping(deeper(agent, "agent", installed.hooks, session_id="s")):
            result = play(agent)
        assert installed.flush()
        assert list(installed.faults) == []
    return result


def say(word: str) -> str:
    return f"{word} 词"


def last(pieces: Any) -> Any:
    return list(pieces)[-1]


async def alast(pieces: Any) -> Any:
    return [piece async for piece in pieces][-1]


WAYS: dict[str, Callable[..., Any]] = {
    "invoke": lambda tool, **given: tool.invoke(**given),
    "ainvoke": lambda tool, **given: asyncio.run(tool.ainvoke(**given)),
    "pieces": lambda tool, **given: last(tool.pieces(**given)),
    "apieces": lambda tool, **given: asyncio.run(alast(tool.apieces(**given))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [Tool, Loud])
def test_a_run_is_one_row_of_the_call_that_asked_for_it(
    engine: ContextEngine, way: str, kind: type[Tool]
) -> None:
    """Also where an awaited method hands on to its twin in a thread, and an app's own class to its base."""
    agent, tool = Agent([[("say", {"word": "lane"})]]), kind("say", say)

    def play(agent: Agent) -> Any:
        talk = [Note("user", "Say it.")]
        talk.append(agent.ask(talk))
        result = WAYS[way](tool, word="lane", state=object())
        (call,) = talk[-1].calls
        talk.append(Note("tool", result, answers=call.id))
        agent.ask(talk)
        return result

    result = played(engine, agent, play)
    assert result == ("LANE 词" if kind is Loud else "lane 词")
    (run,) = runs(engine)
    assert (run.tool, run.args_digest, run.status) == ("say", {"word": "lane"}, "success")
    assert run.type == "function_call"
    assert results(engine, run) == [result]


def test_equal_calls_are_claimed_one_by_one_and_others_not_at_all(engine: ContextEngine) -> None:
    asks: Asks = [("say", {"word": "a"}), ("say", {"word": "a"}), ("missing", {"word": "a"})]
    agent, tool = Agent([asks]), Tool("say", say)

    def play(agent: Agent) -> None:
        talk = [Note("user", "Say it twice.")]
        talk.append(agent.ask(talk))
        given = [tool.invoke(word="a"), tool.invoke(word="a"), "no such tool"]
        tool.invoke(word="a")  # the app's own: three runs, two calls
        for call, result in zip(talk[-1].calls, given, strict=True):
            talk.append(Note("tool", result, answers=call.id))
        agent.ask(talk)

    played(engine, agent, play)
    rows = runs(engine)
    assert sorted((row.tool, row.type) for row in rows) == [
        ("missing", "function_call"),
        ("say", "function_call"),
        ("say", "function_call"),
        ("say", "tool"),
    ]
    assert len({row.tool_call_id for row in rows}) == 4


def test_calls_side_by_side_in_threads_are_told_apart(engine: ContextEngine) -> None:
    words = [f"w{n}" for n in range(6)]
    agent = Agent([[("say", {"word": word}) for word in words]])
    ready = threading.Barrier(len(words), timeout=20)

    def slow(word: str) -> str:
        ready.wait()
        return say(word)

    tool = Tool("say", slow)

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(tool.ainvoke(word=word) for word in reversed(words)))

    def play(agent: Agent) -> None:
        talk = [Note("user", "Say all.")]
        talk.append(agent.ask(talk))
        given = dict(zip(reversed(words), asyncio.run(all_of_them()), strict=True))
        calls = talk[-1].calls
        talk += [Note("tool", given[call.args["word"]], answers=call.id) for call in calls]
        agent.ask(talk)

    played(engine, agent, play)
    assert {row.args_digest["word"]: results(engine, row) for row in runs(engine)} == {
        word: [say(word)] for word in words
    }


@pytest.mark.parametrize("way", WAYS)
def test_what_a_tool_raises_is_the_app_s(engine: ContextEngine, way: str) -> None:
    def broken(word: str) -> str:
        raise PermissionError(word)

    agent, tool = Agent([[("broken", {"word": "lane"})]]), Tool("broken", broken)

    def play(agent: Agent) -> None:
        agent.ask([Note("user", "Break it.")])
        with pytest.raises(PermissionError, match="lane"):
            WAYS[way](tool, word="lane")

    played(engine, agent, play)
    (run,) = runs(engine)
    assert (run.status, run.error) == (ToolCallStatus.FORBIDDEN, "PermissionError: lane")


def test_a_result_may_tell_of_an_error(engine: ContextEngine) -> None:
    told = ToolRecorder(
        find=owner, describe=tool_run, outcome=lambda _, result: Outcome(result, failed=True)
    )

    class Told:
        name = "told"

        def invoke(self, **given: Any) -> str:
            return f"no such word: {given}"

    release = PATCHES.hold([(Told, "invoke", told)], engine)
    played(engine, Agent(), lambda _: Told().invoke(word="lane"))
    release()
    (run,) = runs(engine)
    assert run.status is ToolCallStatus.ERROR


async def test_a_run_that_is_cancelled_or_left(engine: ContextEngine) -> None:
    started = asyncio.Event()

    class Slow(Tool):
        async def ainvoke(self, **given: Any) -> Any:
            started.set()
            await asyncio.sleep(60)

    agent = Agent()
    slow, tool = Slow("slow", say), Tool("say", say)
    installed = AgentAdapter().install_ce(agent, engine=engine)
    release = PATCHES.hold([(Slow, "ainvoke", TOOLS)], installed.hooks)
    with stepping(deeper(agent, "agent", installed.hooks, session_id="s")):
        task = asyncio.create_task(slow.ainvoke(word="a"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        pieces = tool.pieces(word="b")
        assert next(pieces) == "so far"
        pieces.close()  # type: ignore[attr-defined]  # it is a generator
    release()
    installed.uninstall()
    (run,) = await asyncio.to_thread(runs, engine)
    assert (run.tool, run.status) == ("slow", "error")


@pytest.mark.parametrize("awaited", [False, True])
def test_documents_are_found_once(engine: ContextEngine, awaited: bool) -> None:
    shelf = Shelf("A lane is a line.", inner=Shelf("一条线"))

    def play(_: Agent) -> Any:
        return asyncio.run(shelf.afind(query="lane")) if awaited else shelf.find("lane")

    found = played(engine, Agent(), play)
    (run,) = runs(engine)
    assert results(engine, run) == found["documents"] == ["一条线", "A lane is a line."]
    assert run.args_digest == {"query": "lane"}


def test_an_agent_in_a_tool_has_runs_of_its_own(engine: ContextEngine) -> None:
    """The same tool, deeper: it is no part of the run around it."""
    expert = Agent([[("say", {"word": "b"})]])

    def ask(word: str) -> str:
        if word == "b":
            return "said"
        with stepping(deeper(expert, "expert")):
            expert.ask([Note("user", word)])
            return str(tool.invoke(word="b"))

    agent, tool = Agent([[("say", {"word": "a"})]]), Tool("say", ask)

    def play(agent: Agent) -> None:
        agent.ask([Note("user", "Ask.")])
        tool.invoke(word="a")

    played(engine, agent, play)
    assert sorted(str(row.args_digest["word"]) for row in runs(engine)) == ["a", "b"]


@pytest.mark.req("A-30")
def test_a_deletion_empties_what_is_remembered_of_calls(engine: ContextEngine) -> None:
    agent = Agent([[("say", {"word": "my locker is 4711"})]])
    hooks = AgentAdapter().install_ce(agent, engine=engine).hooks
    with stepping(deeper(agent, "agent", hooks, session_id="s")) as step:
        agent.ask([Note("user", "Say it.")])
        engine.sync.delete_session(Scope(session_id="s"))
        assert (
            hooks.requested_tools.claim(step.info(), "say", {"word": "my locker is 4711"}) is None
        )


@pytest.mark.production_guard
def test_a_fault_of_ours_is_not_the_tool_s(engine: ContextEngine) -> None:
    def confused(_: object) -> Any:
        raise LookupError

    tool = Tool("say", say)
    for broken in (
        ToolRecorder(find=owner, describe=confused),
        ToolRecorder(find=owner, describe=tool_run, outcome=lambda *_: confused(0)),
    ):
        agent = Agent()
        with AgentAdapter().install_ce(agent, engine=engine, fail="closed") as installed:
            invoke = broken(vars(Tool)["invoke"])
            with stepping(deeper(agent, "agent", installed.hooks, session_id="s")):
                assert invoke(tool, word="a") == "a 词"
            assert {fault.kind for fault in installed.faults} == {"LookupError"}


def test_nobody_s_tools_are_nobody_s(engine: ContextEngine) -> None:
    tool = Tool("say", say)
    with AgentAdapter().install_ce(Agent(), engine=engine):
        assert tool.invoke(word="a") == "a 词"
        assert asyncio.run(tool.ainvoke(word="b")) == "b 词"
    assert engine.sync.flush()
    assert engine.loop.run(engine.store.list_sessions(user_id=None, ephemeral=True)) == []
