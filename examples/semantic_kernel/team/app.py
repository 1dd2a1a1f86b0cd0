"""A writer, a critic and an editor, one after the other.

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's; and protobuf, which Semantic Kernel's
orchestrations want and it does not bring.
"""

from __future__ import annotations

import asyncio
import sys

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent, SequentialOrchestration
from semantic_kernel.agents.runtime import InProcessRuntime
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion


async def main(subject: str) -> None:
    client = AsyncOpenAI()
    service = OpenAIChatCompletion(ai_model_id="gpt-4o-mini", async_client=client)
    writer = ChatCompletionAgent(
        name="writer", service=service, instructions="Write three sentences."
    )
    critic = ChatCompletionAgent(
        name="critic", service=service, instructions="Say in one sentence what is missing."
    )
    editor = ChatCompletionAgent(
        name="editor", service=service, instructions="Write it again, with what the critic says."
    )
    team = SequentialOrchestration(members=[writer, critic, editor])

    runtime = InProcessRuntime()
    runtime.start()
    result = await team.invoke(task=subject, runtime=runtime)
    print(await result.get())
    await runtime.stop_when_idle()
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "A lighthouse. 一座灯塔。"))
