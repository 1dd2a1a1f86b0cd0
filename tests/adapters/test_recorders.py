"""Tools and retrievers of a framework that tells nobody of them, and no ids: each run is recorded once, with its call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from ce_engine import (
    ContextEngine,
    HostMessage,
    MemoryStore,
    Message,
    ModelCall,
    Origin,
    RetrievedDoc,
    Role,
    Scope,
    ToolCall,
    ToolCallStatus,
    ToolRequest,
    create_context_engine,
)
from ce_integrations import CallInfo, Hooks
from ce_integrations.asked_tools import AskedTools
from ce_integrations.base import Adapter, Detach
from ce_integrations.marks import Attribute, Mark, Marking
from ce_integrations.patches import ClassPatches, Make, all_definitions
from ce_integrations.recorders import Called, Outcome, RetrievalRecorder, RunInfo, ToolRecorder
from ce_integrations.steps import deeper, step_around, stepping
from tests.adapters.talkers import TalkerAdapter


@dataclass(eq=False)
class Note:
    role: str
    content: str = ""
    calls: list[ToolRequest] = field(default_factory=list)
    answers: str | None = None


Asks = list[tuple[str, dict[str, Any]]]


@dataclass(eq=False)
class Agent:
    """Asks a model that wants these tools, and hands its messages around."""

    wants: list[Asks] = field(default_factory=list)

    def ask(self, messages: list[Note]) -> Note:
        turn = len(messages)
        asks = self.wants.pop(0) if self.wants else []
        calls = [
            ToolRequest(name=name, args=args, id=f"call_{turn}_{n}")
            for n, (name, args) in enumerate(asks)
        ]
        return Note("assistant", "" if calls else "Done.", calls)


class Tool:
    """Runs a function, in every way that Python has; the framework adds an argument of its own."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function

    def invoke(self, **given: Any) -> Any:
        return self.function(**{k: v for k, v in given.items() if k != "state"})

    async def ainvoke(self, **given: Any) -> Any:
        return await asyncio.to_thread(self.invoke, **given)

    def pieces(self, **given: Any) -> Iterator[Any]:
        yield "so far"
        yield self.invoke(**given)

    async def apieces(self, **given: Any) -> AsyncIterator[Any]:
        yield "so far"
        yield self.invoke(**given)


class Loud(Tool):
    """An app's own tool, which lets the framework's do the rest."""

    def invoke(self, **given: Any) -> Any:
        return str(super().invoke(**given)).upper()


class Shelf:
    """A retriever, which asks another one if it has one."""

    def __init__(self, *pages: str, inner: Shelf | None = None) -> None:
        self.pages, self.inner = pages, inner

    def find(self, query: str) -> dict[str, list[str]]:
        found = self.inner.find(query)["documents"] if self.inner else []
        return {"documents": [*found, *self.pages]}

    async def afind(self, query: str) -> dict[str, list[str]]:
        await asyncio.sleep(0)
        return self.find(query)


class AgentMark(Mark):
    def info(self, subject: Agent) -> CallInfo:
        step = step_around()
        return CallInfo(session_id="s") if step is None else step.info(session_id="s")


def tool_run(called: Called) -> RunInfo:
    return RunInfo(called.subject.name, dict(called.named), called.owner.info())


def retrieval(called: Called) -> RunInfo:
    (query,) = called.by_name("query").values()
    return RunInfo("shelf", query, called.owner.info())


def owner(_: object) -> Any:
    step = step_around()
    return step if step is not None and step.hooks is not None else None


TOOLS = ToolRecorder(find=owner, describe=tool_run)
FINDS = RetrievalRecorder(
    find=owner,
    describe=retrieval,
    documents=lambda found: [RetrievedDoc(text=page) for page in found["documents"]],
)
MAKERS: dict[type, dict[str, Make]] = {
    Tool: dict.fromkeys(("invoke", "ainvoke", "pieces", "apieces"), TOOLS),
    Shelf: dict.fromkeys(("find", "afind"), FINDS),
}
PATCHES = ClassPatches()
MARKING = Marking(Attribute("_ce_mark"), {Agent: ("ask",)}, packages=("tests",))


class AgentAdapter(Adapter[Agent, Note]):
    name, requires = "agents", ("pydantic>=2",)

    def accepts(self, target: object) -> bool:
        return isinstance(target, Agent)

    def attach(self, target: Agent, hooks: Hooks[Note]) -> Detach:
        with ExitStack() as undo:
            undo.callback(PATCHES.hold(all_definitions(MAKERS), hooks))
            undo.callback(MARKING.attach(target, hooks, AgentMark))
            return undo.pop_all().close

    def to_schema(self, native: Note) -> HostMessage:
        kinds = {"user": Origin.TASK, "tool": Origin.TOOL_RESULT, "assistant": Origin.ANSWER}
        message = Message(role=Role(native.role), content=native.content)
        message.tool_calls, message.tool_call_id = native.calls or None, native.answers
        return HostMessage(message, Origin.TOOL_CALL if native.calls else kinds[native.role])

    to_native = TalkerAdapter.to_native  # type: ignore[assignment]  # nothing is to be made here


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


# Claims


def asked(*calls: ToolRequest, lane: str = "", request: str = "r") -> AskedTools:
    found = AskedTools()
    found.note(ModelCall(Scope(session_id="s"), (), lane, request), calls)
    return found


def request(name: str, id_: str, **args: Any) -> ToolRequest:
    return ToolRequest(name=name, id=id_, args=args)


INFO = CallInfo(request_id="r")


def test_a_call_is_claimed_by_its_name_and_arguments() -> None:
    found = asked(request("a", "1", x=1), request("b", "2", x=1), request("a", "3", x={"y": [2]}))
    assert found.claim(INFO, "a", {"x": 2}) is None
    assert found.claim(INFO, "c", {"x": 1}) is None
    assert found.claim(CallInfo(request_id="other"), "a", {"x": 1}) is None
    assert found.claim(CallInfo(request_id="r", lane_key="other"), "a", {"x": 1}) is None
    claimed = found.claim(INFO, "a", {"x": {"y": [2]}, "state": object()})
    assert claimed is not None
    assert claimed.id == "3"
    assert found.claim(INFO, "a", {"x": {"y": [2]}}) is None  # it is claimed


def test_the_newest_answer_s_calls_come_first() -> None:
    found = asked(request("a", "1", x=1), request("b", "2"))
    call = ModelCall(Scope(session_id="s"), (), "", "r")
    found.note(call, [request("a", "3", x=1)])
    found.note(call, None)  # an answer that asks for nothing
    ids = [claimed and claimed.id for claimed in (found.claim(INFO, "a", {"x": 1}) for _ in "123")]
    assert ids == ["3", "1", None]


def test_an_argument_that_cannot_be_compared_is_another_one() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise TypeError

        __hash__ = object.__hash__

    assert asked(request("a", "1", x=1)).claim(INFO, "a", {"x": Odd()}) is None
