"""Messages of Semantic Kernel, for tests that go round the frameworks."""

from __future__ import annotations

from typing import Any

from semantic_kernel.contents import (
    AuthorRole,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
)

from ce_integrations.semantic_kernel.installer import ADAPTER
from tests.adapters.natives import Natives


class SemanticKernel(Natives):
    adapter = ADAPTER

    def user(self, text: str) -> Any:
        return ChatMessageContent(role=AuthorRole.USER, content=text)

    def answer(self, text: str) -> Any:
        return ChatMessageContent(role=AuthorRole.ASSISTANT, content=text)

    def calls(self, *ids: str, arguments: str = "{}") -> Any:
        items: Any = [FunctionCallContent(id=each, name="f", arguments=arguments) for each in ids]
        return ChatMessageContent(role=AuthorRole.ASSISTANT, items=items)

    def result(self, call_id: str, text: str) -> Any:
        told = FunctionResultContent(id=call_id, name="f", result=text)
        return ChatMessageContent(role=AuthorRole.TOOL, items=[told])
