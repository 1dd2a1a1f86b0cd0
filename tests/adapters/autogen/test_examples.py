"""The examples run, with and without us, and differ by the lines that install us."""

from __future__ import annotations

from ce_engine import SessionDocument
from tests.adapters.examples import Example, ExampleTests, agent_script


class TestExamples(ExampleTests):
    framework = "autogen"
    examples = (
        Example("agent", agent_script("openai"), "distributions", 8),
        Example("team", None, "texts", 8),
    )
    options = ("-W", "ignore")

    def judge(self, name: str, document: SessionDocument) -> None:
        authors = {m.author.id for m in document.session.messages if m.author is not None}
        speakers = {"agent": {"librarian"}, "team": {"writer", "critic", "editor"}}[name]
        assert authors - {"version_of", "summary_of"} == {"user", *speakers}
