"""Messages of Haystack that cannot be read."""

from __future__ import annotations

from typing import Any, ClassVar

from haystack.dataclasses import ChatMessage, ChatRole, TextContent, ToolCall, ToolCallResult

from ce_integrations.calls.hooks import Hooks
from tests.adapters.haystack.natives import Haystack
from tests.adapters.unreadable import ODD, Odd, UnreadableTests, ask, deep, raising, reported


def message(*content: Any, role: Any = ChatRole.USER) -> Any:
    return ChatMessage(_role=role, _content=list(content))


ORIGIN = ToolCall(tool_name="f", arguments={}, id="other")
Raising = raising(ToolCallResult, "result")


class TestUnreadable(Haystack, UnreadableTests):
    odd: ClassVar[dict[str, Any]] = {
        "no message": Odd,
        "an attribute raises": lambda: raising(ChatMessage, "_content", "_meta")(
            _role=ChatRole.USER, _content=[TextContent(ODD)]
        ),
        "its fields raise": lambda: raising(ChatMessage, "__dict__")(
            _role=ChatRole.USER, _content=[TextContent(ODD)]
        ),
        "a part raises": lambda: message(raising(TextContent, "text", "__dict__")(ODD)),
        "a role that is none": lambda: message(TextContent(ODD), role="reviewer"),
        "a result raises": lambda: message(Raising(ODD, ORIGIN, error=False), role=ChatRole.TOOL),
    }

    def test_arguments_nested_too_deep_are_told_from_others(self, hooks: Hooks[Any]) -> None:
        """They can be read, and no store takes them."""
        asks = ToolCall(tool_name="f", arguments=deep(), id="a")
        given = [self.user("Who?"), ChatMessage.from_assistant(tool_calls=[asks])]
        sent, turn = ask(hooks, [*given, self.result("a", "Li"), self.user("And now?")])
        assert len(sent) == 4
        assert reported(turn).degradations == []
