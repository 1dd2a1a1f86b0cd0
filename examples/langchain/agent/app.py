"""An agent with two tools that remembers its threads.

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's.
"""

from __future__ import annotations

import sys
from importlib import metadata

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver


@tool
def version_of(distribution: str) -> str:
    """The installed version of a Python distribution."""
    return metadata.version(distribution)


@tool
def summary_of(distribution: str) -> str:
    """What a Python distribution says of itself in one line."""
    return metadata.metadata(distribution)["Summary"]


def main(questions: list[str]) -> None:
    agent = create_agent(
        ChatOpenAI(model="gpt-4o-mini"),
        [version_of, summary_of],
        system_prompt="You know the Python distributions of this machine. Look before you answer.",
        checkpointer=InMemorySaver(),
    )

    thread: RunnableConfig = {"configurable": {"thread_id": "distributions"}}
    for question in questions:
        state = agent.invoke({"messages": [HumanMessage(question)]}, thread)
        print(state["messages"][-1].content)


if __name__ == "__main__":
    main(sys.argv[1:] or ["Which pydantic is installed, and what is it?", "And which langchain?"])
