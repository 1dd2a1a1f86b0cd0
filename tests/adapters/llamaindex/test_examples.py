"""The examples run, with and without us, and differ by the lines that install us."""

from __future__ import annotations

from tests.adapters.examples import Example, ExampleTests, agent_script


MEMORY = ("agents_that_remember",)


class TestExamples(ExampleTests):
    framework = "llamaindex"
    examples = (
        Example("chat", "From the documents.", "reader-1", 4, needs=MEMORY),
        Example("agent", agent_script("openai"), "distributions", 8, needs=MEMORY),
    )
    endpoint = "OPENAI_API_BASE"
    options = ("-W", "ignore")
