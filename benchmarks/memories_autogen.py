"""AutoGen in `memories.py`: its contexts that limit what goes out, and its client of OpenAI's API."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from autogen_core import FunctionCall
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    TokenLimitedChatCompletionContext,
)
from autogen_core.models import (
    AssistantMessage,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    RequestUsage,
    SystemMessage,
    UserMessage,
)
from autogen_ext.models.openai import OpenAIChatCompletionClient
from memories_talk import BUDGET, SYSTEM, Memory, Ours, Said, count
from overhead_autogen import Client

from ce_integrations.autogen import install_ce


# ruff: noqa: ARG002 - not every memory needs what all are given


BUFFER = 60
"""Messages of this talk that are about 4,000 tokens."""


def native(said: Said) -> LLMMessage:
    if said.role == "user":
        return UserMessage(content=said.text, source="user")
    if said.role == "call":
        asked = FunctionCall(said.call, json.dumps({"words": said.text}), "search")
        return AssistantMessage(content=[asked], source="helper")
    if said.role == "result":
        result = FunctionExecutionResult(
            content=said.text, name="search", call_id=said.call, is_error=False
        )
        return FunctionExecutionResultMessage(content=[result])
    return AssistantMessage(content=said.text, source="helper")


def result(text: str) -> CreateResult:
    return CreateResult(finish_reason="stop", content=text, usage=RequestUsage(0, 0), cached=False)


class Counter(Client):
    """A client with a counter: texts, and three tokens a message."""

    def count_tokens(self, messages: Sequence[LLMMessage], **_: Any) -> int:
        return sum(3 + count(_text(message)) for message in messages)


def _text(message: LLMMessage) -> str:
    said = message.content
    return said if isinstance(said, str) else repr(said)


class Context(Memory):
    """A context of the framework; the agent puts its system message in front of what that gives."""

    def __init__(self, context: ChatCompletionContext) -> None:
        self.context = context

    async def fill(self, said: Sequence[LLMMessage]) -> None:
        for message in said[:-1]:
            await self.context.add_message(message)

    async def ask(self, question: LLMMessage) -> list[LLMMessage]:
        await self.context.add_message(question)
        return [SystemMessage(content=SYSTEM), *await self.context.get_messages()]

    async def answered(self, native: LLMMessage, result: CreateResult) -> None:
        await self.context.add_message(native)


class OursHere(Ours):
    async def fill(self, said: Sequence[LLMMessage]) -> None:
        await super().fill([SystemMessage(content=SYSTEM), *said])


def memories(url: str) -> dict[str, Memory]:
    limited = TokenLimitedChatCompletionContext(Counter(), token_limit=BUDGET)
    return {
        "TokenLimitedChatCompletionContext": Context(limited),
        f"BufferedChatCompletionContext({BUFFER})": Context(BufferedChatCompletionContext(BUFFER)),
        "ours": OursHere(install_ce, Client(), url),
    }


class Sender:
    """Sends lists by the framework's own client."""

    def __init__(self, base_url: str) -> None:
        info: Any = {**Client.info, "multiple_system_messages": True}
        self.client = OpenAIChatCompletionClient(
            model="gpt-4o", base_url=base_url, api_key="no key", max_retries=0, model_info=info
        )

    async def send(self, messages: list[LLMMessage]) -> None:
        await self.client.create(messages)

    async def close(self) -> None:
        await self.client.close()
