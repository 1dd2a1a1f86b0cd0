"""Agents: what they send is as before, their steps are one request, and what they say has an author."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from ce_engine import Scope
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex.releases import make_agent


pytestmark = pytest.mark.scenario(3)


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means 意思"


CALLS = tool_calls([("lookup", {"word": "lane"}), ("lookup", {"word": "turn"})])
TALK = [
    CALLS,
    text("A lane and a turn."),
    tool_calls([("lookup", {"word": "cut"})]),
    text("A cut."),
]
QUESTIONS = ("lane and turn?", "cut?")


def memory(session_id: str = "s") -> ChatMemoryBuffer:
    return ChatMemoryBuffer.from_defaults(token_limit=1_000_000, chat_store_key=session_id)


def ask(runner: asyncio.Runner, questions: Any = QUESTIONS) -> Any:
    """Asks an agent, which remembers."""

    def drive(agent: Any) -> list[str]:
        held = memory()

        async def talk() -> list[str]:
            return [str(await agent.run(question, memory=held)) for question in questions]

        return list(runner.run(talk(), context=copy_context()))

    return drive


def turns(engine: Any, session_id: str = "s") -> list[Any]:
    assert engine.sync.flush()
    return list(engine.loop.run(engine.store.list_turns(Scope(session_id=session_id))))


def rows(stored: Any, session_id: str = "s") -> list[tuple[str, str]]:
    return [(str(m.role), m.content) for m in stored(session_id).session.messages]


@pytest.mark.req("A-24")
@pytest.mark.parametrize(
    "streaming", [True, pytest.param(False, marks=pytest.mark.needs("parallel_calls"))]
)
def test_an_agent_with_tools(
    streaming: bool, twins: Any, model: Any, runner: Any, engine: Any, stored: Any
) -> None:
    def build(wire: Wire) -> Any:
        made = make_agent(model(wire), [lookup], "You look words up.")
        for agent in getattr(made, "agents", {"": made}).values():
            if "streaming" in type(agent).model_fields:
                agent.streaming = streaming
        return made

    found = twins(build, ask(runner), TALK)
    assert found.ours == found.plain
    assert found.results[0] == found.results[1] == ["A lane and a turn.", "A cut."]
    done = turns(engine)
    assert [turn.status for turn in done] == ["committed"] * 4
    assert len({turn.request_id for turn in done}) == 2
    session = stored("s").session
    assert [run.args_digest["word"] for run in session.tool_state.tool_calls] == [
        "lane",
        "turn",
        "cut",
    ]
    assert all(run.result_evidence_ids for run in session.tool_state.tool_calls)
    assert [role for role, _ in rows(stored)] == [
        *("user", "assistant", "tool", "tool", "assistant"),
        *("user", "assistant", "tool", "assistant"),
    ]


def handing_over(model: Any) -> Any:
    def build(wire: Wire) -> Any:
        told = {"llm": model(wire), "description": "answers"}
        one = FunctionAgent(name="one", system_prompt="One.", can_handoff_to=["two"], **told)
        two = FunctionAgent(name="two", system_prompt="Two.", tools=[lookup], **told)
        return AgentWorkflow(agents=[one, two], root_agent="one")

    return build


HANDOFF = [
    tool_calls([("handoff", {"to_agent": "two", "reason": "it knows"})]),
    tool_calls([("lookup", {"word": "lane"})]),
    text("Two says: a line."),
]


def test_a_handoff_stores_each_message_once(
    twins: Any, model: Any, runner: Any, engine: Any, stored: Any
) -> None:
    found = twins(handing_over(model), ask(runner, ["A lane?"]), HANDOFF)
    assert found.ours == found.plain
    assert found.results[1] == ["Two says: a line."]
    assert len({turn.request_id for turn in turns(engine)}) == 1
    assert [role for role, _ in rows(stored)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    session = stored("s").session
    assert [run.tool for run in session.tool_state.tool_calls] == ["handoff", "lookup"]
    said = [m.author.id for m in session.messages if m.role == "assistant" and m.author]
    assert said == ["one", "two", "two"]
    assert len({turn.lane for turn in turns(engine)}) == 1


THOUGHTS = [
    'Thought: I need a word.\nAction: lookup\nAction Input: {"word": "lane"}',
    "Thought: I can answer without using any more tools.\nAnswer: A line.",
    "Thought: I can answer without using any more tools.\nAnswer: As I said.",
]


@pytest.mark.parametrize("streaming", [True, False])
def test_an_agent_that_thinks_aloud(
    streaming: bool, twins: Any, model: Any, runner: Any, engine: Any, stored: Any
) -> None:
    def build(wire: Wire) -> Any:
        agent = ReActAgent(llm=model(wire), tools=[FunctionTool.from_defaults(lookup)])
        if "streaming" in ReActAgent.model_fields:
            agent.streaming = streaming
        return agent

    found = twins(build, ask(runner), list(THOUGHTS))
    assert found.ours == found.plain
    assert found.results[0] == found.results[1] == ["A line.", "As I said."]
    first = rows(stored)[:4]
    assert [role for role, _ in first] == ["user", "assistant", "tool", "assistant"]
    assert first[2][1] == "lane means 意思"
    call = stored("s").session.messages[1]
    assert [(c.name, c.args) for c in call.tool_calls] == [("lookup", {"word": "lane"})]
    assert [turn.status for turn in turns(engine)] == ["committed"] * 3


# An app's own workflows


class Own(Workflow):
    """Asks a model that it holds."""

    def __init__(self, llm: Any) -> None:
        super().__init__(timeout=60)
        self.llm = llm

    @step
    async def answer(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=str(await self.llm.acomplete(ev.question)))


def closing_over(llm: Any) -> Workflow:
    class Closing(Workflow):
        @step
        async def answer(self, ev: StartEvent) -> StopEvent:
            return StopEvent(result=str(await llm.acomplete(ev.question)))

    return Closing(timeout=60)


def making(make: Any) -> Workflow:
    class Making(Workflow):
        """Makes its model while it runs."""

        @step
        async def answer(self, ev: StartEvent) -> StopEvent:
            return StopEvent(result=str(await make().acomplete(ev.question)))

    return Making(timeout=60)


@pytest.mark.parametrize("kind", [Own, closing_over, "made while it runs"])
def test_a_workflow_of_the_app_s_own(
    kind: Any, twins: Any, model: Any, runner: Any, engine: Any
) -> None:
    def build(wire: Wire) -> Any:
        if isinstance(kind, str):
            return making(lambda: model(wire))
        return kind(model(wire))

    def drive(workflow: Any) -> str:
        async def run() -> str:
            return str(await workflow.run(question="A lane?"))

        return str(runner.run(run(), context=copy_context()))

    found = twins(build, drive, "A line.", session_id="s")
    assert found.ours == found.plain
    assert found.results[0] == found.results[1] == "A line."
    (turn,) = turns(engine)
    assert turn.status == "committed"


def test_a_tool_that_fails_is_recorded_as_failed(
    twins: Any, model: Any, runner: Any, stored: Any
) -> None:
    def broken(word: str) -> str:
        """Fail."""
        raise ValueError("no such word: hunter2")

    script = [tool_calls([("broken", {"word": "x"})]), text("It does not work.")]
    found = twins(lambda wire: make_agent(model(wire), [broken], "S"), ask(runner, ["q"]), script)
    assert found.ours == found.plain
    (run,) = stored("s").session.tool_state.tool_calls
    assert run.status == "error"


def test_what_an_installed_agent_is_asked_by_others_is_not_theirs(
    model: Any, runner: Any, engine: Any, stored: Any
) -> None:
    """A model that another agent, which is not installed, shares is governed as the one that is marked."""
    with Wire(["one", "two"]) as wire:
        llm = model(wire)
        ours, theirs = FunctionAgent(llm=llm), FunctionAgent(llm=model(wire))
        with install_ce(ours, engine=engine):
            ask(runner, ["q"])(ours)
            ask(runner, ["foreign"])(theirs)
    assert [content for _, content in rows(stored)] == ["q", "one"]


def test_what_follows_a_run_in_the_same_task_is_not_in_it(
    model: Any, runner: Any, engine: Any, sessions: Any
) -> None:
    """Before 0.14 the span of a run stays the active one of the task that awaited it."""
    with Wire(["one", "two", "three"]) as wire:
        agent = make_agent(model(wire), [], "S")
        (llm,) = (each.llm for each in getattr(agent, "agents", {"": agent}).values())

        async def talk() -> None:
            await agent.run("q", memory=memory("first"))
            await agent.run("q", memory=memory("second"))
            await llm.acomplete("by itself")

        with install_ce(agent, engine=engine):
            runner.run(talk())
    found = sorted((each.ephemeral, each.session_id) for each in sessions())
    assert found[:2] == [(False, "first"), (False, "second")]
    assert [ephemeral for ephemeral, _ in found[2:]] == [True]
    requests = [turns(engine, name)[0].request_id for _, name in found]
    assert len(set(requests)) == 3
