"""Messages of CrewAI, for tests that go round the frameworks."""

from __future__ import annotations

from typing import Any

from ce_integrations.crewai.installer import ADAPTER
from tests.adapters.natives import Natives


class CrewAI(Natives):
    adapter = ADAPTER

    def user(self, text: str) -> Any:
        return {"role": "user", "content": text}

    def answer(self, text: str) -> Any:
        return {"role": "assistant", "content": text}

    def calls(self, *ids: str, arguments: str = "{}") -> Any:
        calls = [
            {"id": each, "type": "function", "function": {"name": "f", "arguments": arguments}}
            for each in ids
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    def result(self, call_id: str, text: str) -> Any:
        return {"role": "tool", "content": text, "tool_call_id": call_id}
