"""Messages of LlamaIndex that cannot be read."""

from __future__ import annotations

from typing import Any, ClassVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, TextBlock

from ce_integrations.llamaindex.installer import ADAPTER
from tests.adapters.unreadable import ODD, Closed, Odd, UnreadableTests, raising


class TestUnreadable(UnreadableTests):
    adapter = ADAPTER
    odd: ClassVar[dict[str, Any]] = {
        "no message": Odd,
        "an attribute raises": lambda: raising(ChatMessage, "blocks")(role="user", content=ODD),
        "its fields raise": lambda: raising(ChatMessage, "__dict__")(role="user", content=ODD),
        "a part raises": lambda: ChatMessage.model_construct(
            role="user", blocks=[raising(TextBlock, "text")(text=ODD)], additional_kwargs={}
        ),
        "calls that are none": lambda: ChatMessage.model_construct(
            role="assistant", blocks=[], additional_kwargs={"tool_calls": [Closed(), 7]}
        ),
    }

    def user(self, text: str) -> Any:
        return ChatMessage(role="user", content=text)

    def answer(self, text: str) -> Any:
        return ChatMessage(role="assistant", content=text)

    def calls(self, *ids: str) -> Any:
        calls = [
            {"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for each in ids
        ]
        return ChatMessage(role="assistant", additional_kwargs={"tool_calls": calls})

    def result(self, call_id: str, text: str) -> Any:
        return ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": call_id})

    def _answered(self, n: int) -> Any:
        return ChatResponse(message=super()._answered(n))
