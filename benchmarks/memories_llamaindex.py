"""LlamaIndex in `memories.py`: its memories, and its client of OpenAI's API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, TextBlock, ToolCallBlock
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.memory import Memory as QueueMemory
from llama_index.llms.openai import OpenAI
from memories_talk import BUDGET, SYSTEM, Memory, Ours, Said, encode
from overhead_llamaindex import Model

from ce_integrations.llamaindex import install_ce


# ruff: noqa: ARG002 - not every memory needs what all are given


def native(said: Said) -> ChatMessage:
    if said.role == "call":
        asked = json.dumps({"words": said.text})
        call = ToolCallBlock(tool_call_id=said.call, tool_name="search", tool_kwargs=asked)
        return ChatMessage(role="assistant", blocks=[TextBlock(text=""), call])
    if said.role == "result":
        return ChatMessage(said.text, role="tool", additional_kwargs={"tool_call_id": said.call})
    return ChatMessage(said.text, role=said.role)


def result(text: str) -> ChatResponse:
    return ChatResponse(message=ChatMessage(text, role="assistant"))


class Theirs(Memory):
    """A memory of the framework; the agent puts its system message in front of what that gives."""

    def __init__(self, memory: BaseMemory) -> None:
        self.memory = memory

    async def fill(self, said: Sequence[ChatMessage]) -> None:
        await self.memory.aput_messages(list(said[:-1]))

    async def ask(self, question: ChatMessage) -> list[ChatMessage]:
        await self.memory.aput(question)
        found = await self.memory.aget(input=question.content)
        return [ChatMessage(SYSTEM, role="system"), *found]

    async def answered(self, native: ChatMessage, result: ChatResponse) -> None:
        await self.memory.aput(native)


class OursHere(Ours):
    async def fill(self, said: Sequence[ChatMessage]) -> None:
        await super().fill([ChatMessage(SYSTEM, role="system"), *said])


def memories(url: str) -> dict[str, Memory]:
    limits: dict[str, Any] = {"token_limit": BUDGET, "tokenizer_fn": encode}
    return {
        "Memory": Theirs(QueueMemory.from_defaults(**limits)),
        "ChatMemoryBuffer": Theirs(ChatMemoryBuffer.from_defaults(**limits)),
        "ours": OursHere(install_ce, Model(max_tokens=None), url),
    }


class Sender:
    """Sends lists by the framework's own client."""

    def __init__(self, base_url: str) -> None:
        self.client = OpenAI("gpt-4o", api_base=base_url, api_key="no key", max_retries=0)

    async def send(self, messages: list[ChatMessage]) -> None:
        await self.client.achat(messages)

    async def close(self) -> None:
        pass
