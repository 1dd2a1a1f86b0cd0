"""Messages of AutoGen, for tests that go round the frameworks."""

from __future__ import annotations

from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    RequestUsage,
    UserMessage,
)

from ce_integrations.autogen.installer import ADAPTER
from tests.adapters.natives import Natives


class AutoGen(Natives):
    adapter = ADAPTER

    def user(self, text: str) -> Any:
        return UserMessage(content=text, source="user")

    def answer(self, text: str) -> Any:
        return AssistantMessage(content=text, source="a")

    def calls(self, *ids: str, arguments: str = "{}") -> Any:
        calls = [FunctionCall(id=each, name="f", arguments=arguments) for each in ids]
        return AssistantMessage(content=calls, source="a")

    def result(self, call_id: str, text: str) -> Any:
        told = FunctionExecutionResult(content=text, name="f", call_id=call_id)
        return FunctionExecutionResultMessage(content=[told])

    def reply(self, text: str) -> Any:
        usage = RequestUsage(prompt_tokens=1, completion_tokens=1)
        return CreateResult(content=text, finish_reason="stop", usage=usage, cached=False)
