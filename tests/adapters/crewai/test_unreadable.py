"""Messages of CrewAI that cannot be read."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.adapters.crewai.natives import CrewAI
from tests.adapters.unreadable import ODD, Closed, Odd, UnreadableTests, raising


class TestUnreadable(CrewAI, UnreadableTests):
    odd: ClassVar[dict[str, Any]] = {
        "no message": Odd,
        "an attribute raises": lambda: raising(dict, "get")(role="user", content=ODD),
        "a part raises": lambda: {"role": "user", "content": [ODD, Closed()]},
        "calls that are none": lambda: {"role": "assistant", "content": ODD, "tool_calls": [7]},
        "files that are none": lambda: {"role": "user", "content": ODD, "files": {"a": 7}},
    }
