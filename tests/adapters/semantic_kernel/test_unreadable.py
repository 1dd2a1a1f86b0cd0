"""Messages of Semantic Kernel that cannot be read."""

from __future__ import annotations

from typing import Any, ClassVar

from semantic_kernel.contents import (
    AuthorRole,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    TextContent,
)

from ce_integrations.semantic_kernel.installer import ADAPTER
from tests.adapters.unreadable import ODD, Closed, Odd, UnreadableTests, raising


def message(*items: Any, kind: Any = ChatMessageContent, role: Any = AuthorRole.USER) -> Any:
    made = kind(role=AuthorRole.USER, content="")
    made.__dict__.update(items=list(items), role=role)
    return made


class TestUnreadable(UnreadableTests):
    adapter = ADAPTER
    odd: ClassVar[dict[str, Any]] = {
        "no message": Odd,
        "an attribute raises": lambda: message(
            TextContent(text=ODD), kind=raising(ChatMessageContent, "items")
        ),
        "a part raises": lambda: message(raising(TextContent, "to_dict", "__dict__")(text=ODD)),
        "a role that is none": lambda: message(TextContent(text=ODD), role="reviewer"),
        "a part is none": lambda: message(Closed()),
    }

    def user(self, text: str) -> Any:
        return ChatMessageContent(role=AuthorRole.USER, content=text)

    def answer(self, text: str) -> Any:
        return ChatMessageContent(role=AuthorRole.ASSISTANT, content=text)

    def calls(self, *ids: str) -> Any:
        items: Any = [FunctionCallContent(id=each, name="f", arguments="{}") for each in ids]
        return ChatMessageContent(role=AuthorRole.ASSISTANT, items=items)

    def result(self, call_id: str, text: str) -> Any:
        told = FunctionResultContent(id=call_id, name="f", result=text)
        return ChatMessageContent(role=AuthorRole.TOOL, items=[told])
