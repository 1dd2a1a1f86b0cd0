"""Messages of AutoGen that cannot be read."""

from __future__ import annotations

from typing import Any, ClassVar

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
from tests.adapters.unreadable import ODD, Closed, Odd, UnreadableTests, raising, said


class TestUnreadable(UnreadableTests):
    adapter = ADAPTER
    odd: ClassVar[dict[str, Any]] = {
        "no message": Odd,
        "an attribute raises": lambda: raising(UserMessage, "content")(content=ODD, source="li"),
        "its fields raise": lambda: raising(UserMessage, "__dict__")(content=ODD, source="li"),
        "a part is none": lambda: AssistantMessage.model_construct(
            content=[Closed(), ODD], source="a", thought=None
        ),
        "no content": UserMessage.model_construct,
    }

    def user(self, text: str) -> Any:
        return UserMessage(content=text, source="user")

    def answer(self, text: str) -> Any:
        return AssistantMessage(content=text, source="a")

    def calls(self, *ids: str) -> Any:
        calls = [FunctionCall(id=each, name="f", arguments="{}") for each in ids]
        return AssistantMessage(content=calls, source="a")

    def result(self, call_id: str, text: str) -> Any:
        told = FunctionExecutionResult(content=text, name="f", call_id=call_id)
        return FunctionExecutionResultMessage(content=[told])

    def _answered(self, n: int) -> Any:
        usage = RequestUsage(prompt_tokens=1, completion_tokens=1)
        return CreateResult(content=said(n), finish_reason="stop", usage=usage, cached=False)
