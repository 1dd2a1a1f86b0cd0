"""A team of three that writes a text: one drafts, one judges, one corrects; they share one client.

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's.
"""

from __future__ import annotations

import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_agentchat.messages import BaseChatMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient


PARTS = {
    "writer": "You write a short text about what the user names.",
    "critic": "You say in two sentences what is wrong with the text of the writer.",
    "editor": "You give the text once more, with what the critic says put right.",
}


async def main(tasks: list[str]) -> None:
    client = OpenAIChatCompletionClient(model="gpt-4o-mini")
    agents: list[ChatAgent | Team] = [
        AssistantAgent(name, client, system_message=part) for name, part in PARTS.items()
    ]
    team = RoundRobinGroupChat(agents, max_turns=len(agents))

    for task in tasks:
        async for event in team.run_stream(task=task):
            if isinstance(event, BaseChatMessage):
                print(f"{event.source}: {event.to_text()}")
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or ["A lighthouse.", "The same, from the keeper's view."]))
