"""An agent with two tools and a memory.

Needs OPENAI_API_KEY, and OPENAI_API_BASE for a server other than OpenAI's.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import metadata

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.llms.openai import OpenAI


def version_of(distribution: str) -> str:
    """The installed version of a Python distribution."""
    return metadata.version(distribution)


def summary_of(distribution: str) -> str:
    """What a Python distribution says of itself in one line."""
    return metadata.metadata(distribution)["Summary"]


async def main(questions: list[str]) -> None:
    agent = FunctionAgent(
        llm=OpenAI(model="gpt-4o-mini"),
        tools=[version_of, summary_of],
        system_prompt="You know the Python distributions of this machine. Look before you answer.",
    )

    memory = ChatMemoryBuffer.from_defaults(token_limit=100_000, chat_store_key="distributions")
    for question in questions:
        print(await agent.run(question, memory=memory))


if __name__ == "__main__":
    asked = sys.argv[1:] or ["Which pydantic is installed, and what is it?", "And which openai?"]
    asyncio.run(main(asked))
