"""Messages of AutoGen that cannot be read."""

from __future__ import annotations

from typing import Any, ClassVar

from autogen_core.models import (
    AssistantMessage,
    UserMessage,
)

from tests.adapters.autogen.natives import AutoGen
from tests.adapters.unreadable import ODD, Closed, Odd, UnreadableTests, raising


class TestUnreadable(AutoGen, UnreadableTests):
    odd: ClassVar[dict[str, Any]] = {
        "no message": Odd,
        "an attribute raises": lambda: raising(UserMessage, "content")(content=ODD, source="li"),
        "its fields raise": lambda: raising(UserMessage, "__dict__")(content=ODD, source="li"),
        "a part is none": lambda: AssistantMessage.model_construct(
            content=[Closed(), ODD], source="a", thought=None
        ),
        "no content": UserMessage.model_construct,
    }
