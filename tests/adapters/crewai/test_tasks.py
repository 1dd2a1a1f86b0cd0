"""Tasks of a crew become the session's to-do list, and every call and tool's run says which it was for."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from crewai import Process
from crewai.tasks.conditional_task import ConditionalTask
from crewai.tools import tool
from pydantic import BaseModel

from ce_engine import SessionDocument
from ce_integrations import ce_session
from ce_integrations.testing.answers import JsonObject, error, simple_count, text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.crewai.apps import agent, crew, model, task
from tests.hosts.cli_host import ce


pytestmark = [pytest.mark.scenario(4), pytest.mark.req("A-24")]

Stored = Callable[..., SessionDocument]


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} 意思"


def tasks_of(document: SessionDocument) -> list[tuple[str, str, list[str], list[str], str]]:
    """Name, status, what it waits for, what it gave, error."""
    found = document.session.task_state.todo_list.tasks
    names = {each.task_id: each.name for each in found}
    return [
        (
            each.name,
            str(each.status),
            [names[one] for one in each.depends_on],
            [_said(document, one) for one in each.result_evidence_ids],
            each.error,
        )
        for each in found
    ]


def _said(document: SessionDocument, evidence_id: str) -> str:
    content = document.evidences[evidence_id].content
    named = document.evidences[evidence_id].metadata.get("message_id")
    said = {m.message_id: m.content for m in document.session.messages}
    return content or said[named]


def test_tasks_have_status_dependencies_and_results(
    install: Any, engine: Any, stored: Stored
) -> None:
    with Wire(["Found 车道.", "Written."]) as wire:
        first = task(agent(model(wire), "finder"), name="find")
        made = crew(first, task(agent(model(wire), "writer"), "Write.", name="write"))
        with install(made, engine=engine), ce_session("s1"):
            made.kickoff(inputs={"text": "lane"})
    document = stored("s1")
    assert tasks_of(document) == [
        ("find", "completed", [], ["Found 车道."], ""),
        ("write", "completed", ["find"], ["Written."], ""),
    ]
    ids = [str(each.id) for each in made.tasks]
    assert [usage.task_id for usage in document.session.model_usage] == ids
    assert [m.content for m in document.session.messages if m.role == "assistant"] == [
        "Found 车道.",
        "Written.",
    ]


def test_a_task_that_fails_and_those_that_never_begin(
    install: Any, engine: Any, stored: Stored
) -> None:
    with Wire(error(500, "overloaded")) as wire:
        who = agent(model(wire), max_retry_limit=0)
        made = crew(task(who, name="find"), task(who, "Write.", name="write", context=[]))
        with install(made, engine=engine), ce_session("s1"), pytest.raises(Exception, match="over"):
            made.kickoff(inputs={"text": "lane"})
    failed, left = tasks_of(stored("s1"))
    assert failed[:2] == ("find", "failed")
    assert "overloaded" in failed[4]
    assert left == ("write", "cancelled", [], [], "")


def test_a_task_whose_condition_does_not_hold_is_not_begun(
    install: Any, engine: Any, stored: Stored
) -> None:
    with Wire("Found.") as wire:
        who = agent(model(wire))
        told = {"description": "Write.", "expected_output": "A sentence.", "agent": who}
        made = crew(
            task(who, name="find"), ConditionalTask(condition=lambda _: False, name="write", **told)
        )
        with install(made, engine=engine), ce_session("s1"):
            made.kickoff(inputs={"text": "lane"})
    assert [(name, status) for name, status, *_ in tasks_of(stored("s1"))] == [
        ("find", "completed"),
        ("write", "cancelled"),
    ]


def told(bodies: list[JsonObject]) -> int:
    return sum(map(simple_count, bodies))


def test_two_agents_that_share_a_model_add_up_to_what_the_provider_counted(
    install: Any, engine: Any, stored: Stored
) -> None:
    """Asked twice; the framework's own sum counts each agent's share again."""
    with Wire("So.") as wire:
        shared = model(wire)
        made = crew(task(agent(shared, "finder")), task(agent(shared, "writer"), "Write."))
        with install(made, engine=engine), ce_session("s1"):
            for word in ("lane", "车道"):
                made.kickoff(inputs={"text": word})
    usage = stored("s1").session.model_usage
    assert Counter(row.task_id for row in usage) == {str(each.id): 2 for each in made.tasks}
    assert [row.prompt_tokens for row in usage] == list(map(simple_count, wire.bodies))
    assert not any(row.params.get("estimated") for row in usage)


def test_copies_that_run_at_once_add_up_each_in_its_session(
    install: Any, engine: Any, stored: Stored, runner: Any
) -> None:
    with Wire(lambda body: text(f"So: {str(body['messages'])[-60:]}")) as wire:
        made = crew(task(agent(model(wire))))
        inputs = [{"text": f"word {n} 词", "session_id": f"s{n}"} for n in range(5)]
        with install(made, engine=engine):
            runner.run(made.kickoff_for_each_async(inputs=inputs))
    rows = [row for n in range(5) for row in stored(f"s{n}").session.model_usage]
    assert len(rows) == len({row.task_id for row in rows}) == 5
    assert sum(row.prompt_tokens for row in rows) == told(wire.bodies)


class Meaning(BaseModel):
    """What a word means."""

    word: str


def helped(body: JsonObject) -> Any:
    wanted = str(body.get("response_format") or "")
    if "Guardrail" in wanted:
        return text(json.dumps({"valid": True, "feedback": None}))
    return text(json.dumps({"word": "lane"}) if wanted else "A lane.")


def test_a_guardrail_and_a_converter_are_paid_by_their_task(
    install: Any, engine: Any, stored: Stored
) -> None:
    with Wire(helped) as wire:
        who = agent(model(wire))
        made = crew(task(who, guardrail="It is about lines."), task(who, output_pydantic=Meaning))
        with install(made, engine=engine), ce_session("s1"):
            made.kickoff(inputs={"text": "lane"})
    usage = stored("s1").session.model_usage
    assert len(usage) == len(wire.bodies) >= 3
    guarded, converted = (str(each.id) for each in made.tasks)
    assert [row.task_id for row in usage][:2] == [guarded, guarded]
    assert {row.task_id for row in usage[2:]} == {converted}
    assert [str(row.stage) for row in usage][:2] == ["answer", "other"]
    assert sum(row.prompt_tokens for row in usage) == told(wire.bodies)


DELEGATED = [
    tool_calls(
        [("delegate_work_to_coworker", {"task": "Look.", "context": "", "coworker": "expert"})]
    ),
    tool_calls([("lookup", {"word": "lane"})]),
    text("A line."),
    text("The expert says: a line."),
]


def test_work_that_is_delegated_is_paid_by_the_task_it_is_for(
    install: Any, engine: Any, stored: Stored
) -> None:
    with Wire(DELEGATED) as wire:
        shared = model(wire)
        made = crew(
            task(None, name="find"),
            agents=[agent(shared, "expert", tools=[lookup])],
            process=Process.hierarchical,
            manager_llm=shared,
        )
        with install(made, engine=engine), ce_session("s1"):
            made.kickoff(inputs={"text": "lane"})
    session, task_id = stored("s1").session, str(made.tasks[0].id)
    assert {row.task_id for row in session.model_usage} == {task_id}
    inside = [row.params.get("sub_task_id") for row in session.model_usage]
    assert [bool(each) for each in inside] == [False, True, True, False]
    assert len(set(inside)) == 2
    runs = {run.tool: run for run in session.tool_state.tool_calls}
    assert {run.task_id for run in runs.values()} == {task_id}
    assert set(runs) == {"delegate_work_to_coworker", "lookup"}


def test_ce_show_lists_the_tasks_and_what_they_took(install: Any) -> None:
    with Wire(["Found 车道.", error(400, "no")]) as wire:
        first = task(agent(model(wire), "finder"), name="find")
        made = crew(first, task(agent(model(wire), "writer"), "Write.", name="写"))
        with install(made, store="sqlite:///ce.db"), ce_session("s1"), pytest.raises(Exception):  # noqa: B017 - whatever CrewAI makes of it
            made.kickoff(inputs={"text": "lane"})
    shown = ce("show", "s1", "--store", "sqlite:///ce.db", columns=200).stdout
    find, write = (re.split(" {2,}", each) for each in section(shown, "Tasks (2)")[1:])
    assert find[1:4] == ["find", "completed", "-"]
    assert f"stored as {find[4]} llm_output" in shown
    assert int(find[5]) > 0
    assert write[1:4] == ["写", "failed", find[0]]
    assert "400" in write[-1]


def section(shown: str, title: str) -> list[str]:
    """The lines below a title of `ce show`."""
    return shown.partition(f"{title}\n")[2].partition("\n\n")[0].splitlines()
