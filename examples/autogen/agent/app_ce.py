"""An agent with two tools that remembers what was said.

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import metadata

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

from ce_integrations.autogen import install_ce


def version_of(distribution: str) -> str:
    """The installed version of a Python distribution."""
    return metadata.version(distribution)


def summary_of(distribution: str) -> str:
    """What a Python distribution says of itself in one line."""
    return metadata.metadata(distribution)["Summary"]


async def main(questions: list[str]) -> None:
    client = OpenAIChatCompletionClient(model="gpt-4o-mini")
    agent = AssistantAgent(
        "librarian",
        client,
        tools=[version_of, summary_of],
        system_message="You know the Python distributions of this machine. Look before you answer.",
        max_tool_iterations=5,
    )
    install_ce(agent, session_id="distributions")

    for question in questions:
        result = await agent.run(task=question)
        print(result.messages[-1].to_text())
    await client.close()


if __name__ == "__main__":
    asyncio.run(
        main(sys.argv[1:] or ["Which pydantic is installed, and what is it?", "And which openai?"])
    )
