"""Messages of LlamaIndex, for tests that go round the frameworks."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse

from ce_integrations.llamaindex.installer import ADAPTER
from tests.adapters.natives import Natives


class LlamaIndex(Natives):
    adapter = ADAPTER

    def user(self, text: str) -> Any:
        return ChatMessage(role="user", content=text)

    def answer(self, text: str) -> Any:
        return ChatMessage(role="assistant", content=text)

    def calls(self, *ids: str, arguments: str = "{}") -> Any:
        calls = [
            {"id": each, "type": "function", "function": {"name": "f", "arguments": arguments}}
            for each in ids
        ]
        return ChatMessage(role="assistant", additional_kwargs={"tool_calls": calls})

    def result(self, call_id: str, text: str) -> Any:
        return ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": call_id})

    def reply(self, text: str) -> Any:
        return ChatResponse(message=self.answer(text))
