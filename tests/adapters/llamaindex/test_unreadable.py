"""Messages of LlamaIndex that cannot be read."""

from __future__ import annotations

from typing import Any, ClassVar

from llama_index.core.base.llms.types import ChatMessage, TextBlock

from tests.adapters.llamaindex.natives import LlamaIndex
from tests.adapters.unreadable import ODD, Closed, Odd, UnreadableTests, raising


class TestUnreadable(LlamaIndex, UnreadableTests):
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
