"""Messages of Semantic Kernel that cannot be read."""

from __future__ import annotations

from typing import Any, ClassVar

from semantic_kernel.contents import (
    AuthorRole,
    ChatMessageContent,
    TextContent,
)

from tests.adapters.semantic_kernel.natives import SemanticKernel
from tests.adapters.unreadable import ODD, Closed, Odd, UnreadableTests, raising


def message(*items: Any, kind: Any = ChatMessageContent, role: Any = AuthorRole.USER) -> Any:
    made = kind(role=AuthorRole.USER, content="")
    made.__dict__.update(items=list(items), role=role)
    return made


class TestUnreadable(SemanticKernel, UnreadableTests):
    odd: ClassVar[dict[str, Any]] = {
        "no message": Odd,
        "an attribute raises": lambda: message(
            TextContent(text=ODD), kind=raising(ChatMessageContent, "items")
        ),
        "a part raises": lambda: message(raising(TextContent, "to_dict", "__dict__")(text=ODD)),
        "a role that is none": lambda: message(TextContent(text=ODD), role="reviewer"),
        "a part is none": lambda: message(Closed()),
    }
