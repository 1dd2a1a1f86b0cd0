"""Messages as dicts in the form of OpenAI's chat completions, which frameworks keep or send: calls, and what is restored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ce_engine import Message, Role, ToolRequest
from ce_integrations.mapping.content_blocks import call_args


__all__ = ["call_dict", "message_dict", "tool_request"]


def tool_request(call: Mapping[str, Any]) -> ToolRequest:
    """A call of a tool, whether its name stands in a `function` or not."""
    function = call.get("function") or call
    return ToolRequest(name=function.get("name") or "", id=call.get("id"), args=call_args(function))


def call_dict(call_id: str | None, name: str, args: Mapping[str, Any] | str) -> dict[str, Any]:
    """A call of a tool; arguments that are text stay as they are."""
    arguments = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def message_dict(message: Message) -> dict[str, Any]:
    """A stored message, with its calls or the call that it answers."""
    native: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.role is Role.TOOL:
        native["tool_call_id"] = message.tool_call_id or ""
    if message.tool_calls:
        native["tool_calls"] = [
            call_dict(call.id, call.name, call.args) for call in message.tool_calls
        ]
    return native
