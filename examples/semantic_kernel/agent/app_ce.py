"""An agent with two functions that remembers what was said.

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import metadata

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function

from ce_integrations.semantic_kernel import install_ce


class Distributions:
    """The Python distributions of this machine."""

    @kernel_function
    def version_of(self, distribution: str) -> str:
        """The installed version of a Python distribution."""
        return metadata.version(distribution)

    @kernel_function
    def summary_of(self, distribution: str) -> str:
        """What a Python distribution says of itself in one line."""
        return metadata.metadata(distribution)["Summary"]


async def main(questions: list[str]) -> None:
    client = AsyncOpenAI()
    agent = ChatCompletionAgent(
        name="librarian",
        service=OpenAIChatCompletion(ai_model_id="gpt-4o-mini", async_client=client),
        instructions="You know the Python distributions of this machine. Look before you answer.",
        plugins=[Distributions()],
    )
    thread = ChatHistoryAgentThread(thread_id="distributions")
    install_ce(agent)

    for question in questions:
        print(await agent.get_response(question, thread=thread))
    await client.close()


if __name__ == "__main__":
    asyncio.run(
        main(sys.argv[1:] or ["Which pydantic is installed, and what is it?", "And which openai?"])
    )
