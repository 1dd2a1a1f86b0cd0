"""The examples run, with and without us, and differ by the lines that install us."""

from __future__ import annotations

import re

import pytest

from ce_engine import SessionDocument
from ce_integrations.testing.wire import Wire
from tests.adapters.examples import Example, ExampleTests, agent_script


BOX = re.compile("[╭│╰].*")
"""What CrewAI draws around what it tells of its runs, with ids that are new each time."""


@pytest.mark.needs("talks")
class TestExamples(ExampleTests):
    framework = "crewai"
    examples = (
        Example("agent", agent_script("openai"), "distributions", 8, ("talks",)),
        Example("crew", ["A bridge.", "A better bridge."], "texts", 4, ("talks",)),
    )
    options = ("-W", "ignore")
    noise = ("Using an approximate input token count",)

    def run(self, name: str, plain: Wire, ours: Wire) -> tuple[str, str]:
        first, second = super().run(name, plain, ours)
        return self.said(first), self.said(second)

    def said(self, printed: str) -> str:
        return "\n".join(filter(None, BOX.sub("", printed).splitlines()))

    def judge(self, name: str, document: SessionDocument) -> None:
        tasks = document.session.task_state.todo_list.tasks
        told = [(task.name, str(task.status)) for task in tasks]
        done = [("draft", "completed"), ("polish", "completed")]
        assert told == (done if name == "crew" else [])
