"""The examples run, with and without us, and differ by the lines that install us."""

from __future__ import annotations

from tests.adapters.examples import Example, ExampleTests, agent_script


class TestExamples(ExampleTests):
    framework = "haystack"
    examples = (
        Example("pipeline", "From the documents.", "reader-1", 4),
        Example("agent", agent_script("openai"), "distributions", 8),
    )
