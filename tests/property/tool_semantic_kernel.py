"""Random tool histories through the Semantic Kernel adapter: its messages, and how a service is asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from semantic_kernel.connectors.ai.open_ai import OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import (
    AuthorRole,
    ChatHistory,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    StreamingChatMessageContent,
)

from ce_engine.schema.report import Report
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.answers import Answer, Call
from tests.adapters.semantic_kernel.contract_apps import Service
from tests.property import tool_cases
from tests.property.tool_cases import WireCase


class Rig(tool_cases.Rig):
    def __init__(self) -> None:
        super().__init__()
        self.service = Service(self.wire)

    async def aclose(self) -> None:
        await self.service.client.close()


class Messages(tool_cases.Messages[ChatMessageContent]):
    """Each result is a message of its own; in streams, calls and results are of another class."""

    def long(self) -> str:
        return "\n".join(self.words(12) for _ in range(self.rng.choice((1, 1, 1, 3, 25))))

    def system(self) -> ChatMessageContent:
        return ChatMessageContent(role=AuthorRole.SYSTEM, content=self.words(15), name="helper")

    def question(self) -> ChatMessageContent:
        name = self.rng.choice((None, None, "ann"))
        return ChatMessageContent(role=AuthorRole.USER, content=f"{self.words(30)}?", name=name)

    def answer(self) -> ChatMessageContent:
        return ChatMessageContent(role=AuthorRole.ASSISTANT, content=self.words(40), name="helper")

    def asks(self) -> ChatMessageContent:
        calls = [
            FunctionCallContent(
                id=f"call_{self.rng.randrange(10**9)}",
                name=self.rng.choice(("lookup", "tools-lookup")),
                arguments=json.dumps({"q": self.words(4)}),
            )
            for _ in range(self.rng.choice((1, 1, 2, 3)))
        ]
        if self.chance(0.3):
            return StreamingChatMessageContent(
                role=AuthorRole.ASSISTANT, choice_index=0, items=list(calls)
            )
        return ChatMessageContent(role=AuthorRole.ASSISTANT, items=list(calls), name="helper")

    def results(self, asked: ChatMessageContent, ids: list[str]) -> list[ChatMessageContent]:
        self.spoil(ids)
        found = [
            FunctionResultContent(id=id_, name="tools-lookup", result=self.long()) for id_ in ids
        ]
        if isinstance(asked, StreamingChatMessageContent):
            return [each.to_streaming_chat_message_content() for each in found]
        return [each.to_chat_message_content() for each in found]


@dataclass
class Case(WireCase[ChatMessageContent]):
    """A host with a service and a history; one of three hosts makes its messages anew for every call."""

    install = staticmethod(install_ce)
    ways = ("whole", "streaming")

    rig: Rig

    def __post_init__(self) -> None:
        super().__post_init__()
        self.copies = float(self.make.chance(0.3))
        self.model = self.rig.service

    def messages(self) -> Messages:
        faults = tool_cases.FAULTS if self.rng.random() < 0.7 else ()
        return Messages(self.rng, faults, self.counts)

    def makes_anew(self) -> bool:
        return bool(self.copies)

    def speaks(self) -> bool:
        return False

    async def ask(self, way: str, given: list[ChatMessageContent]) -> None:
        history, settings = ChatHistory(messages=given), OpenAIChatPromptExecutionSettings()
        if way == "whole":
            await self.model.get_chat_message_contents(history, settings)
        else:
            async for _ in self.model.get_streaming_chat_message_contents(history, settings):
                pass

    def as_answer(self, says: ChatMessageContent) -> Answer:
        calls = tuple(
            Call(item.name or "", str(item.arguments), item.id)
            for item in says.items
            if isinstance(item, FunctionCallContent)
        )
        return Answer(content=says.content or None, calls=calls)

    def asked(self, message: ChatMessageContent) -> list[str]:
        calls = (item for item in message.items if isinstance(item, FunctionCallContent))
        return [str(call.id) for call in calls]

    def answered(self, message: ChatMessageContent) -> list[str]:
        results = (item for item in message.items if isinstance(item, FunctionResultContent))
        return [str(result.id) for result in results]

    def person(self, message: ChatMessageContent) -> str | None:
        return message.content if message.role is AuthorRole.USER else None

    def has_room(self, given: Sequence[ChatMessageContent], budget: int, report: Report) -> bool:
        return report.tokens_before <= budget
