"""Messages of LangChain that cannot be read."""

from __future__ import annotations

from typing import Any, ClassVar

from langchain_core.messages import HumanMessage

from tests.adapters.langchain.natives import LangChain
from tests.adapters.unreadable import ODD, Closed, Odd, UnreadableTests, raising


def parts_that_raise() -> Any:
    return HumanMessage.model_construct(content=[{"type": "text", "text": ODD}, Closed()])


class TestUnreadable(LangChain, UnreadableTests):
    odd: ClassVar[dict[str, Any]] = {
        "no message": Odd,
        "an attribute raises": lambda: raising(HumanMessage, "content")(ODD),
        "its fields raise": lambda: raising(HumanMessage, "__dict__")(ODD),
        "a part raises": parts_that_raise,
        "no content": HumanMessage.model_construct,
    }
