"""Functions that a model calls: each run once, with its status, whatever becomes of it."""

from __future__ import annotations

from typing import Any

import pytest
from semantic_kernel import Kernel
from semantic_kernel.contents import ChatHistory, FunctionCallContent
from semantic_kernel.filters import FilterTypes

from ce_integrations import ce_session
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.wire import Wire, text, tool_calls
from tests.adapters.semantic_kernel.configurations import agent, summing
from tests.adapters.semantic_kernel.contract_apps import plugin


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means 意思"


def broken(word: str) -> str:
    """Fail."""
    raise ValueError(f"no such word: {word}")


def slow(word: str) -> str:
    """Take too long."""
    raise TimeoutError(word)


def locked(word: str) -> str:
    """Let nobody in."""
    raise PermissionError(word)


CALLS = [
    ("lookup", {"word": "车道"}),
    ("nowhere", {"word": "lane"}),
    ("lookup", {"wort": "lane"}),
    ("broken", {"word": "lane"}),
    ("slow", {"word": "lane"}),
    ("locked", {"word": "lane"}),
]
STATUSES = ["success", "error", "error", "error", "timeout", "forbidden"]


@pytest.mark.scenario(3)
@pytest.mark.req("A-07", "A-23")
@pytest.mark.parametrize("streams", [False, True])
async def test_parallel_calls_have_the_status_that_they_came_to(
    service: Any, engine: Any, stored: Any, streams: bool
) -> None:
    """Unknown functions, wrong arguments and errors are told to the model as texts, and are no results."""
    with Wire([tool_calls(CALLS), text("Well.")]) as wire:
        ann = agent("ann", service(wire), [plugin([lookup, broken, slow, locked])])
        with install_ce(ann, engine=engine), ce_session("s"):
            if streams:
                assert [str(piece) async for piece in ann.invoke_stream("Go.")]
            else:
                assert str(await ann.get_response("Go.")) == "Well."
        told = {m["tool_call_id"]: m["content"] for m in wire.bodies[1]["messages"][3:]}
        asked = [call["id"] for call in wire.bodies[1]["messages"][2]["tool_calls"]]
        assert wire.refusals == []
    runs = [(*call, status) for call, status in zip(CALLS, STATUSES, strict=True)]
    assert sorted(stored.runs(), key=str) == sorted(runs, key=str)
    document = stored.document()
    calls = document.session.tool_state.tool_calls
    (nowhere,) = [run for run in calls if run.tool == "nowhere"]
    assert "nowhere" in told[asked[1]]
    (evidence_id,) = nowhere.result_evidence_ids
    assert document.evidences[evidence_id].content == told[asked[1]]
    said = [m for m in document.session.messages if m.role == "tool"]
    failed = {m.content for m in said if m.status == "error"}
    assert {told[each] for each in asked[1:4]} <= failed
    assert told[asked[0]] not in failed


@pytest.mark.req("A-07")
async def test_an_app_s_filters_are_heard_and_stay_as_they_were(
    service: Any, engine: Any, stored: Any
) -> None:
    """What a filter makes of a result is the result; what it answers itself is no error."""
    with Wire([tool_calls(CALLS[:1]), text("Well.")]) as wire:
        ann = agent("ann", service(wire), [plugin([lookup])])

        @ann.kernel.filter(FilterTypes.AUTO_FUNCTION_INVOCATION)
        async def redact(context: Any, next: Any) -> None:  # noqa: A002 - the framework's name
            await next(context)
            context.function_result.value = "REDACTED"

        filters = list(ann.kernel.auto_function_invocation_filters)
        with install_ce(ann, engine=engine), ce_session("s"):
            await ann.get_response("Go.")
            assert ann.kernel.auto_function_invocation_filters == filters
    document = stored.document()
    (run,) = document.session.tool_state.tool_calls
    assert run.status == "success"
    assert document.evidences[run.result_evidence_ids[0]].content == "REDACTED"


@pytest.mark.req("A-07")
async def test_a_call_that_the_app_runs_itself(engine: Any, stored: Any) -> None:
    kernel = Kernel(plugins=[plugin([lookup])])
    history = ChatHistory()
    call = FunctionCallContent(id="c1", name="tools-lookup", arguments='{"word": "车道"}')
    with install_ce(kernel, engine=engine), ce_session("s"):
        await kernel.invoke_function_call(call, history)
        assert str(await kernel.invoke(function_name="lookup", plugin_name="tools", word="x"))
    assert len(history) == 1
    assert stored.runs() == [("tools-lookup", {"word": "车道"}, "success")]


@pytest.mark.scenario(5)
@pytest.mark.req("A-23", "B-16")
async def test_a_prompt_in_a_function_and_an_agent_as_one(
    service: Any, engine: Any, stored: Any
) -> None:
    """Every call is prepared, on a line of its own, in the session of who asked."""
    script = [
        tool_calls([("Summing-sum_up", {"words": "lanes"})]),
        text("Lines."),
        tool_calls([("expert-expert", {"messages": "A lane?"})]),
        text("A line."),
        text("So: lines."),
    ]
    with Wire(script) as wire:
        made = service(wire)
        boss = agent("boss", made, [summing(), agent("expert", service(wire))])
        with install_ce(boss, engine=engine), ce_session("s"):
            assert str(await boss.get_response("Go.")) == "So: lines."
        assert len(wire.bodies) == len(script)
        assert wire.refusals == []
    turns = stored.turns()
    assert [turn.lane for turn in turns] == [
        *("boss", "boss/Summing-sum_up", "boss", "boss/expert-expert/expert", "boss")
    ]
    assert len({turn.request_id for turn in turns}) == 1
    spoken = [each for each in stored.said() if each[0]]
    assert spoken == [
        *(("Summing-sum_up", "Lines."), ("expert", "A line."), ("boss", "So: lines."))
    ]
    assert [(run, status) for run, _, status in stored.runs()] == [
        *(("Summing-sum_up", "success"), ("expert-expert", "success"))
    ]
