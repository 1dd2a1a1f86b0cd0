"""An agent with two tools; the app keeps the messages.

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's.
"""

from __future__ import annotations

import sys
from importlib import metadata

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool


@tool
def version_of(distribution: str) -> str:
    """The installed version of a Python distribution."""
    return metadata.version(distribution)


@tool
def summary_of(distribution: str) -> str:
    """What a Python distribution says of itself in one line."""
    return metadata.metadata(distribution)["Summary"]


PROMPT = "You know the Python distributions of this machine. Look before you answer."


def main(questions: list[str]) -> None:
    agent = Agent(
        chat_generator=OpenAIChatGenerator(model="gpt-4o-mini"), tools=[version_of, summary_of]
    )

    messages = [ChatMessage.from_system(PROMPT)]
    for question in questions:
        messages.append(ChatMessage.from_user(question))
        messages = agent.run(messages=messages)["messages"]
        print(messages[-1].text)


if __name__ == "__main__":
    main(sys.argv[1:] or ["Which pydantic is installed, and what is it?", "And which openai?"])
