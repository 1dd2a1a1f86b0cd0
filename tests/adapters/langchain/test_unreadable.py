"""Messages of LangChain that cannot be read."""

from __future__ import annotations

from typing import Any, ClassVar

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from ce_integrations.langchain.installer import ADAPTER
from tests.adapters.unreadable import ODD, Closed, Odd, UnreadableTests, raising


def parts_that_raise() -> Any:
    return HumanMessage.model_construct(content=[{"type": "text", "text": ODD}, Closed()])


class TestUnreadable(UnreadableTests):
    adapter = ADAPTER
    odd: ClassVar[dict[str, Any]] = {
        "no message": Odd,
        "an attribute raises": lambda: raising(HumanMessage, "content")(ODD),
        "its fields raise": lambda: raising(HumanMessage, "__dict__")(ODD),
        "a part raises": parts_that_raise,
        "no content": HumanMessage.model_construct,
    }

    def user(self, text: str) -> Any:
        return HumanMessage(text)

    def answer(self, text: str) -> Any:
        return AIMessage(text)

    def calls(self, *ids: str) -> Any:
        return AIMessage("", tool_calls=[{"id": each, "name": "f", "args": {}} for each in ids])

    def result(self, call_id: str, text: str) -> Any:
        return ToolMessage(text, tool_call_id=call_id)
