"""A crew of two tasks with a tool sends and gives the same with us, and its objects are what they were."""

from __future__ import annotations

from typing import Any

import pytest
from crewai.tools import tool

from ce_integrations import ce_session
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.conftest import Compare
from tests.adapters.crewai.apps import agent, crew, model, task


SCRIPT = [
    tool_calls([("lookup", {"word": "lane"}), ("lookup", {"word": "车道"})]),
    text("A lane is a line. 一条线"),
    text("In short: a line."),
]


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} 意思"


def build(wire: Wire) -> Any:
    first = agent(model(wire), "finder", tools=[lookup])
    return crew(task(first), task(agent(model(wire), "writer"), "Sum it up."))


@pytest.mark.scenario(1)
@pytest.mark.req("A-16", "A-24")
def test_with_room_a_crew_sends_the_same_bytes_again_and_again(twins: Compare) -> None:
    """In one session, too: the tasks that are recorded there are not brought in."""

    def drive(made: Any) -> list[str]:
        with ce_session("s1"):
            return [str(made.kickoff(inputs={"text": "lane? 车道"})) for _ in range(2)]

    found = twins(build, drive, SCRIPT * 2)
    assert found.ours == found.plain
    assert found.results[0] == found.results[1] == ["In short: a line."] * 2


@pytest.mark.scenario(1)
def test_what_a_crew_says_of_itself_has_nothing_of_ours(install: Any, engine: Any) -> None:
    with Wire("So.") as wire:
        made = build(wire)
        before = made.model_dump(exclude={"agents", "tasks"}).keys(), made.key
        with install(made, engine=engine):
            assert (made.model_dump(exclude={"agents", "tasks"}).keys(), made.key) == before
            assert made.agents[0].copy().role == "finder"
        assert "_ce_mark" not in vars(made)
