"""An agent with two tools, which is asked twice.

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's.
"""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Any

from crewai import LLM, Agent
from crewai.tools import tool


@tool
def version_of(distribution: str) -> str:
    """The installed version of a Python distribution."""
    return metadata.version(distribution)


@tool
def summary_of(distribution: str) -> str:
    """What a Python distribution says of itself in one line."""
    return metadata.metadata(distribution)["Summary"]


def main(questions: list[str]) -> None:
    librarian = Agent(
        role="librarian",
        goal="Look before you answer.",
        backstory="You know the Python distributions of this machine.",
        tools=[version_of, summary_of],
        llm=LLM(model="openai/gpt-4o-mini"),
    )

    said: list[Any] = []
    for question in questions:
        said.append({"role": "user", "content": question})
        answer: Any = librarian.kickoff(said)
        said.append({"role": "assistant", "content": answer.raw})
        print(answer.raw)


if __name__ == "__main__":
    main(sys.argv[1:] or ["Which pydantic is installed, and what is it?", "And which openai?"])
