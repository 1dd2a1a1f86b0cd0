"""The examples run, with and without us, and differ by the lines that install us."""

from __future__ import annotations

from tests.adapters.examples import Example, ExampleTests, agent_script


class TestExamples(ExampleTests):
    framework = "langchain"
    examples = (
        Example("chain", "An answer.", "chat-1", 4),
        Example("retrieval", "From the documents.", "reader-1", 4, is_forgetful=True),
        Example(
            "agent", agent_script("langchain-core"), "distributions", 8, needs=("create_agent",)
        ),
    )
