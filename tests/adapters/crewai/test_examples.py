"""The examples run, with and without us, and differ by the lines that install us."""

from __future__ import annotations

import pytest

from ce_engine import SessionDocument
from ce_integrations.testing.wire import Wire
from tests.adapters.examples import Example, ExampleTests, agent_script


BOX = "╭│╰"
"""What CrewAI draws around what it tells of its runs, with ids that are new each time."""


@pytest.mark.needs("roles_in_kickoff")
class TestExamples(ExampleTests):
    framework = "crewai"
    examples = (
        Example("agent", agent_script("openai"), "distributions", 8, ("roles_in_kickoff",)),
        Example("crew", ["A bridge.", "A better bridge."], "texts", 4, ("roles_in_kickoff",)),
    )
    options = ("-W", "ignore")

    def run(self, app: str, wire: Wire) -> str:
        lines = super().run(app, wire).splitlines()
        return "\n".join(line for line in lines if line and line[0] not in BOX)

    def judge(self, name: str, document: SessionDocument) -> None:
        tasks = document.session.task_state.todo_list.tasks
        told = [(task.name, str(task.status)) for task in tasks]
        done = [("draft", "completed"), ("polish", "completed")]
        assert told == (done if name == "crew" else [])
