"""Models with bound tools, the loop being the app's own; and structured output."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from ce_engine import EvidenceType, Origin, Role, Scope, ToolCallStatus
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.langchain.releases import make_agent


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: 晴, 21 degrees"


SCRIPT = [
    tool_calls([("weather", {"city": "Oslo"}), ("weather", {"city": "北京"})]),
    text("Both are fine."),
    tool_calls([("weather", {"city": "Rome"})]),
    text("Rome too."),
]


def converse(call: Any, config: Any = None) -> Any:
    """Two questions, each with a round of tools that the app runs itself."""

    def drive(model: Any) -> list[Any]:
        bound = model.bind_tools([weather])
        messages: list[Any] = []
        for question in ("Oslo and 北京?", "And Rome?"):
            messages.append(HumanMessage(question))
            answer = call(bound, list(messages), config)
            messages.append(answer)
            messages += [weather.invoke(each) for each in answer.tool_calls]
            messages.append(call(bound, list(messages), config))
        return messages

    return drive


@pytest.mark.scenario(2)
@pytest.mark.req("A-24")
def test_with_room_the_bodies_are_the_same(twins: Any, chat: Any, call: Any) -> None:
    found = twins(chat, converse(call), SCRIPT)
    assert len(found.ours) == 4
    assert found.ours == found.plain
    assert all("tools" in json.loads(raw) for raw in found.ours)


@pytest.mark.req("A-03", "A-24")
def test_calls_and_results_are_recorded_and_linked(
    twins: Any, chat: Any, call: Any, stored: Any
) -> None:
    twins(chat, converse(call, {"metadata": {"conversation_id": "s"}}), SCRIPT)
    document = stored("s")
    messages = document.session.messages
    assert [m.role for m in messages] == [
        *("user", "assistant", "tool", "tool", "assistant"),
        *("user", "assistant", "tool", "assistant"),
    ]
    calls = {c.tool_call_id: c for c in document.session.tool_state.tool_calls}
    assert [(c.tool, c.args_digest, c.status) for c in calls.values()] == [
        ("weather", {"city": "Oslo"}, ToolCallStatus.SUCCESS),
        ("weather", {"city": "北京"}, ToolCallStatus.SUCCESS),
        ("weather", {"city": "Rome"}, ToolCallStatus.SUCCESS),
    ]
    results = [e for e in document.evidences.values() if e.type is EvidenceType.TOOL_RESULT]
    assert {calls[e.links.tool_call_id or ""].args_digest["city"]: e.content for e in results} == {
        city: f"{city}: 晴, 21 degrees" for city in ("Oslo", "北京", "Rome")
    }


def test_a_tool_message_with_a_block_and_an_artifact_reaches_the_model_as_it_is(
    twins: Any, chat: Any, call: Any
) -> None:
    def drive(model: Any) -> Any:
        answer = call(model, [HumanMessage("q")])
        result = ToolMessage(
            content=[{"type": "text", "text": "a block"}],
            tool_call_id=answer.tool_calls[0]["id"],
            artifact={"kept": object()},
        )
        return call(model, [HumanMessage("q"), answer, result]).content

    found = twins(chat, drive, [tool_calls([("weather", {"city": "x"})]), text("done")])
    assert found.ours == found.plain


class Verdict(BaseModel):
    """A verdict."""

    good: bool
    why: str


@pytest.mark.scenario(2)
@pytest.mark.req("A-24")
@pytest.mark.filterwarnings(
    "ignore:Pydantic serializer warnings"
)  # langchain-openai's own, in streams
@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(twins: Any, chat: Any, mode: str, method: str, runner: Any) -> None:
    answer = {"good": True, "why": "好"}
    script = [tool_calls([("Verdict", answer)])]
    if method == "json_schema":
        script = [text(json.dumps(answer))]

    def drive(model: Any) -> Any:
        judge = model.with_structured_output(Verdict, method=method)
        if mode == "invoke":
            return judge.invoke("judge")
        if mode == "batch":
            return judge.batch(["judge"])[0]
        if mode == "ainvoke":
            return runner.run(judge.ainvoke("judge"))
        if mode == "stream":
            return list(judge.stream("judge"))[-1]

        async def last() -> Any:
            return [chunk async for chunk in judge.astream("judge")][-1]

        return runner.run(last())

    found = twins(chat, drive, script, session_id="s")
    assert found.ours == found.plain
    assert found.results == [Verdict(good=True, why="好")] * 2
    assert found.installation is not None
    report = found.installation.last_report("s")
    assert report is not None
    kind = "response_format" if method == "json_schema" else "tools"
    assert report.payload_tokens[kind] > 0


def test_origins_are_told_apart(twins: Any, chat: Any, call: Any, engine: Any, stored: Any) -> None:
    twins(chat, converse(call), SCRIPT, session_id="s")
    stored("s")
    from ce_engine import Scope

    state = engine.loop.run(engine.store.state(Scope(session_id="s")))
    assert [row.origin for row in state.rows[:5]] == [
        Origin.TASK,
        Origin.TOOL_CALL,
        Origin.TOOL_RESULT,
        Origin.TOOL_RESULT,
        Origin.ANSWER,
    ]


@pytest.mark.req("A-03", "A-24")
def test_a_result_that_no_model_sees_is_kept(chat: Any, engine: Any, stored: Any) -> None:
    @tool(return_direct=True)
    def report(city: str) -> str:
        """The whole report."""
        return f"the report of {city}"

    with Wire([tool_calls([("report", {"city": "Oslo"})])]) as wire:
        agent: Any = make_agent(chat(wire), [report])
        with install_ce(agent, engine=engine, session_id="s"):
            agent.invoke({"messages": [HumanMessage("the report, please")]})
    document = stored("s")
    (call,) = document.session.tool_state.tool_calls
    found = [document.evidences[evidence_id] for evidence_id in call.result_evidence_ids]
    assert [(e.type, e.content) for e in found] == [
        (EvidenceType.TOOL_RESULT, "the report of Oslo")
    ]


@pytest.mark.req("A-09", "A-24")
def test_a_result_that_its_message_carries_is_kept_once(
    chat: Any, engine: Any, stored: Any
) -> None:
    with Wire([tool_calls([("weather", {"city": "Oslo"})]), text("Fine.")]) as wire:
        agent: Any = make_agent(chat(wire), [weather])
        with install_ce(agent, engine=engine, session_id="s"):
            agent.invoke({"messages": [HumanMessage("Oslo?")]})
    document = stored("s")
    results = [e for e in document.evidences.values() if e.type is EvidenceType.TOOL_RESULT]
    (call,) = document.session.tool_state.tool_calls
    assert call.result_evidence_ids == [e.evidence_id for e in results]
    (message,) = [m for m in document.session.messages if m.role is Role.TOOL]
    assert [ref.evidence_id for ref in message.refs] == call.result_evidence_ids
    assert message.content == results[0].content
    rows = engine.loop.run(
        engine.store.evidence_rows(Scope(session_id="s"), list(document.evidences))
    )
    assert {r.message_id for r in rows if r.evidence.type is EvidenceType.TOOL_RESULT} == {
        message.message_id
    }
