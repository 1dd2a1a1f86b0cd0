"""Messages of CrewAI that cannot be read."""

from __future__ import annotations

from typing import Any, ClassVar

from ce_integrations.crewai.installer import ADAPTER
from tests.adapters.unreadable import ODD, Closed, Odd, UnreadableTests, raising


class TestUnreadable(UnreadableTests):
    adapter = ADAPTER
    odd: ClassVar[dict[str, Any]] = {
        "no message": Odd,
        "an attribute raises": lambda: raising(dict, "get")(role="user", content=ODD),
        "a part raises": lambda: {"role": "user", "content": [ODD, Closed()]},
        "calls that are none": lambda: {"role": "assistant", "content": ODD, "tool_calls": [7]},
        "files that are none": lambda: {"role": "user", "content": ODD, "files": {"a": 7}},
    }

    def user(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def answer(self, text: str) -> Any:
        return {"role": "assistant", "content": text}

    def calls(self, *ids: str) -> Any:
        calls = [
            {"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for each in ids
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    def result(self, call_id: str, text: str) -> Any:
        return {"role": "tool", "content": text, "tool_call_id": call_id}
