"""Messages of LangChain, for tests that go round the frameworks."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from ce_integrations.langchain.installer import ADAPTER
from tests.adapters.natives import Natives, read


class LangChain(Natives):
    adapter = ADAPTER

    def user(self, text: str) -> Any:
        return HumanMessage(text)

    def answer(self, text: str) -> Any:
        return AIMessage(text)

    def calls(self, *ids: str, arguments: str = "{}") -> Any:
        return AIMessage(
            "", tool_calls=[{"id": each, "name": "f", "args": read(arguments)} for each in ids]
        )

    def result(self, call_id: str, text: str) -> Any:
        return ToolMessage(text, tool_call_id=call_id)
