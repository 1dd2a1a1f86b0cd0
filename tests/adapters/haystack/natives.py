"""Messages of Haystack, for tests that go round the frameworks."""

from __future__ import annotations

from typing import Any

from haystack.dataclasses import ChatMessage, ToolCall

from ce_integrations.haystack.installer import ADAPTER
from tests.adapters.natives import Natives, read


class Haystack(Natives):
    adapter = ADAPTER

    def user(self, text: str) -> Any:
        return ChatMessage.from_user(text)

    def answer(self, text: str) -> Any:
        return ChatMessage.from_assistant(text)

    def calls(self, *ids: str, arguments: str = "{}") -> Any:
        asked = [ToolCall(tool_name="f", arguments=read(arguments), id=each) for each in ids]
        return ChatMessage.from_assistant(tool_calls=asked)

    def result(self, call_id: str, text: str) -> Any:
        origin = ToolCall(tool_name="f", arguments={}, id=call_id)
        return ChatMessage.from_tool(text, origin=origin)
