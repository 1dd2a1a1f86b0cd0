"""`create_agent` graphs: with and without a checkpointer, parallel tools, errors of tools, five ways to call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from ce_engine import EvidenceType, Scope, ToolCallStatus
from ce_integrations.testing.wire import text, tool_calls
from tests.adapters.langchain.releases import HAS, MODEL_NODE, make_agent


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means 意思 {len(word)}"


@tool
def broken(word: str) -> str:
    """Fail."""
    raise TimeoutError(word)


SCRIPT = [
    tool_calls([("lookup", {"word": "lane"}), ("lookup", {"word": "turn"})]),
    text("A lane and a turn."),
    tool_calls([("lookup", {"word": "cut"})]),
    text("And a cut."),
]
QUESTIONS = ("lane and turn?", "cut?")


def build(chat: Any, *, saved: bool) -> Any:
    def make(wire: Any) -> Any:
        return make_agent(
            chat(wire),
            [lookup],
            system_prompt="You look words up.",
            checkpointer=InMemorySaver() if saved else None,
        )

    return make


@pytest.fixture
def run(mode: str, runner: Any) -> Any:
    """Run an agent in one of the five ways; gives the final state."""

    def last(states: list[Any]) -> Any:
        return states[-1]

    def go(agent: Any, messages: list[Any], config: Any) -> Any:
        given = {"messages": messages}
        if mode == "invoke":
            return agent.invoke(given, config)
        if mode == "batch":
            return agent.batch([given], config)[0]
        if mode == "ainvoke":
            return runner.run(agent.ainvoke(given, config))
        if mode == "stream":
            return last(list(agent.stream(given, config, stream_mode="values")))

        async def collect() -> list[Any]:
            return [s async for s in agent.astream(given, config, stream_mode="values")]

        return last(runner.run(collect()))

    return go


def converse(run: Any, *, saved: bool) -> Any:
    def drive(agent: Any) -> list[str]:
        config = {"configurable": {"thread_id": "t"}}
        messages: list[Any] = []
        for question in QUESTIONS:
            asked = HumanMessage(question)
            state = run(agent, [asked] if saved else [*messages, asked], config)
            messages = state["messages"]
        return [str(m.content) for m in messages]

    return drive


@pytest.mark.scenario(5)
@pytest.mark.req("A-24")
@pytest.mark.parametrize("saved", [True, False], ids=["checkpointer", "no-checkpointer"])
def test_with_room_the_bodies_are_the_same(twins: Any, chat: Any, run: Any, saved: bool) -> None:
    found = twins(build(chat, saved=saved), converse(run, saved=saved), SCRIPT)
    assert len(found.ours) == 4
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]


@pytest.mark.req("A-24", "A-03")
@pytest.mark.parametrize("saved", [True, False], ids=["checkpointer", "no-checkpointer"])
def test_a_thread_is_one_session_with_everything_in_it(
    twins: Any, chat: Any, run: Any, saved: bool, stored: Any, engine: Any
) -> None:
    found = twins(build(chat, saved=saved), converse(run, saved=saved), SCRIPT)
    document = stored("t")
    assert [m.content for m in document.session.messages] == found.results[1]
    calls = {c.tool_call_id: c for c in document.session.tool_state.tool_calls}
    expected = dict.fromkeys(("lane", "turn", "cut"), ("lookup", ToolCallStatus.SUCCESS))
    assert {c.args_digest["word"]: (c.tool, c.status) for c in calls.values()} == expected
    assert len(calls) == 3
    evidences = document.evidences
    results = [e for e in evidences.values() if e.type is EvidenceType.TOOL_RESULT]
    assert {calls[e.links.tool_call_id or ""].args_digest["word"] for e in results} == {
        *("lane", "turn", "cut")
    }
    assert all(call.result_evidence_ids for call in calls.values())
    assert len(results) == 3
    usages = document.session.model_usage
    assert [u.stage for u in usages] == ["tool_call", "answer"] * 2
    assert not any(u.params.get("estimated") for u in usages)
    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="t")))
    assert [t.status for t in turns] == ["committed"] * 4
    assert [t.request_id for t in turns[:2]] == [turns[0].request_id] * 2
    assert turns[0].request_id != turns[2].request_id
    assert {t.lane for t in turns} == {MODEL_NODE}


@pytest.mark.scenario(4, 5)
def test_the_state_of_the_graph_is_untouched(twins: Any, chat: Any, run: Any) -> None:
    """Nothing that we put in, and nothing that we left out, is in the app's own state."""

    def drive(agent: Any) -> Any:
        config = {"configurable": {"thread_id": "t"}}
        for question in QUESTIONS:
            run(agent, [HumanMessage(question)], config)
        return [(m.type, m.content) for m in agent.get_state(config).values["messages"]]

    found = twins(build(chat, saved=True), drive, SCRIPT)
    assert found.results[0] == found.results[1]
    assert len(found.results[1]) == 9


@pytest.mark.scenario(5)
@pytest.mark.req("A-24")
def test_a_tool_that_raises_does_so_as_before_and_is_recorded(
    twins: Any, chat: Any, run: Any, stored: Any
) -> None:
    def make(wire: Any) -> Any:
        return make_agent(chat(wire), [broken])

    def drive(agent: Any) -> str:
        given = [HumanMessage("go")], {"configurable": {"thread_id": "t"}}
        if not HAS["create_agent"]:  # whose tools' errors are messages to the model
            return str(run(agent, *given)["messages"][-2].content)
        with pytest.raises(TimeoutError) as caught:
            run(agent, *given)
        return str(caught.value)

    found = twins(make, drive, [tool_calls([("broken", {"word": "secret word"})]), text("no")])
    assert found.results[0] == found.results[1]
    assert "secret word" in found.results[0]
    (call,) = stored("t").session.tool_state.tool_calls
    assert (call.tool, call.status) == ("broken", ToolCallStatus.TIMEOUT)


@pytest.mark.scenario(5)
def test_parallel_tools_are_answered_in_any_order(
    twins: Any, chat: Any, run: Any, stored: Any
) -> None:
    many = [("lookup", {"word": "x" * n}) for n in range(1, 9)]
    found = twins(
        build(chat, saved=False),
        lambda agent: run(agent, [HumanMessage("all")], {"configurable": {"thread_id": "t"}}),
        [tool_calls(many), text("done")],
    )
    assert found.ours == found.plain
    document = stored("t")
    assert len(document.session.tool_state.tool_calls) == 8
    results = [e for e in document.evidences.values() if e.type is EvidenceType.TOOL_RESULT]
    assert sorted(e.content for e in results) == sorted(
        f"{w['word']} means 意思 {len(w['word'])}" for _, w in many
    )


def test_every_request_carries_tools_and_the_system_prompt(twins: Any, chat: Any, run: Any) -> None:
    found = twins(build(chat, saved=True), converse(run, saved=True), SCRIPT)
    for raw in found.ours:
        body = json.loads(raw)
        assert body["messages"][0] == {"role": "system", "content": "You look words up."}
        assert [t["function"]["name"] for t in body["tools"]] == ["lookup"]
