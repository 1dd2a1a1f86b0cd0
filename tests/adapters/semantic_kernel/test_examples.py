"""The examples run, with and without us, and differ by the lines that install us."""

from __future__ import annotations

from ce_engine import SessionDocument
from tests.adapters.examples import Example, ExampleTests, agent_script


class TestExamples(ExampleTests):
    framework = "semantic_kernel"
    examples = (
        Example("agent", agent_script("openai"), "distributions", 8),
        Example("team", None, "texts", 4),
    )
    options = ("-W", "ignore")

    def judge(self, name: str, document: SessionDocument) -> None:
        said = [m for m in document.session.messages if m.role == "assistant"]
        authors = {m.author.id for m in said if m.author is not None}
        assert authors == {"agent": {"librarian"}, "team": {"writer", "critic", "editor"}}[name]
