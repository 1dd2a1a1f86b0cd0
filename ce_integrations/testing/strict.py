"""What a strict provider refuses in the body of a request."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any


JsonObject = dict[str, Any]

PARTS = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}
"""Kinds of content parts by role; the keys are the roles there are."""
MESSAGE_KEYS = frozenset(
    ("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio")
)
FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
AUTHOR_NAME = re.compile(r"[^\s<|\\/>]{1,64}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was refused; `param` says where in the body, in the provider's notation."""

    message: str
    param: str | None = None
    code: str | None = None
    status: int = 400

    def document(self) -> JsonObject:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": error}


def chat_faults(
    body: JsonObject, *, single_system: bool = False, message_keys: Collection[str] = ()
) -> Iterator[Refusal]:
    """Yields what is wrong with a chat request; a check may assume that those before it passed.

    Args:
        body: The parsed body.
        single_system: Whether only one system message is accepted, and only as the first.
        message_keys: Keys of messages that this provider knows beyond OpenAI's.
    """
    yield from _model_faults(body)
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield Refusal("messages is missing or no array", "messages", "missing_required_parameter")
        return
    if not messages:
        yield Refusal(
            "messages is empty; at least one message is needed", "messages", "empty_array"
        )
    for index, message in enumerate(messages):
        yield from _message_faults(message, f"messages.[{index}]", message_keys)
    yield from _pair_faults(messages)
    if single_system:
        yield from _system_faults(messages)
    yield from _tool_faults(body)
    yield from _format_faults(body)


def prompt_faults(body: JsonObject) -> Iterator[Refusal]:
    """Yields what is wrong with a legacy completion request."""
    yield from _model_faults(body)
    prompt = body.get("prompt")
    prompts = [prompt] if isinstance(prompt, str) else prompt
    if not isinstance(prompts, list) or not all(isinstance(text, str) for text in prompts):
        yield Refusal("prompt must be text or an array of texts", "prompt", "invalid_type")
    elif not prompts:
        yield Refusal("prompt is empty", "prompt", "empty_array")


def embedding_faults(body: JsonObject) -> Iterator[Refusal]:
    """Yields what is wrong with a request for embeddings."""
    yield from _model_faults(body)
    if not isinstance(body.get("input"), str | list) or not body["input"]:
        yield Refusal("input must be text, tokens, or a filled array of those", "input")


def _model_faults(body: JsonObject) -> Iterator[Refusal]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield Refusal("the name of a model is missing", "model", "missing_required_parameter")
    if body.get("stream_options") and not body.get("stream"):
        yield Refusal("stream_options without stream", "stream_options", "invalid_value")
    if body.get("n") not in (None, 1):
        yield Refusal("Wire gives one choice; n must be 1", "n", "unsupported_value")


def _message_faults(message: Any, at: str, message_keys: Collection[str]) -> Iterator[Refusal]:
    if not isinstance(message, dict):
        yield Refusal(f"{at} is no object", at, "invalid_type")
        return
    role = message.get("role")
    if not isinstance(role, str) or role not in PARTS:
        yield Refusal(
            f"unknown role {role!r}; known: {', '.join(PARTS)}", f"{at}.role", "invalid_value"
        )
    for key in message.keys() - MESSAGE_KEYS - set(message_keys):
        yield Refusal(f"unknown key {key!r} in a message", f"{at}.{key}", "unknown_parameter")
    name = message.get("name")
    if name is not None and not (isinstance(name, str) and AUTHOR_NAME.fullmatch(name)):
        yield Refusal(f"invalid name {name!r}", f"{at}.name", "invalid_value")
    yield from _text_faults(message, "refusal", at)
    yield from _content_faults(message, at)
    if message.get("tool_calls") is not None:
        yield from _call_faults(message, at)
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield Refusal("a tool message needs a tool_call_id", at, "missing_required_parameter")


def _content_faults(message: JsonObject, at: str) -> Iterator[Refusal]:
    content, role = message.get("content"), message["role"]
    if isinstance(content, str):
        return
    if content is None:
        says = any(message.get(key) for key in ("tool_calls", "refusal", "audio"))
        if not (role == "assistant" and says):
            yield Refusal(f"a {role} message needs content", f"{at}.content", "invalid_type")
    elif not isinstance(content, list) or not content:
        yield Refusal("content must be text or a filled array", f"{at}.content", "invalid_type")
    else:
        for index, part in enumerate(content):
            yield from _part_faults(part, role, f"{at}.content.[{index}]")


def _part_faults(part: Any, role: str, at: str) -> Iterator[Refusal]:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in PARTS[role]:
        yield Refusal(f"a {role} message takes no part of type {kind!r}", at, "invalid_value")
    elif kind in {"text", "refusal"}:
        if not isinstance(part.get(kind), str):
            yield Refusal(f"a part of type {kind!r} needs its text", at, "invalid_type")
    elif not isinstance(part.get(kind), dict):
        yield Refusal(f"a part of type {kind!r} needs an object of that name", at, "invalid_type")


def _call_faults(message: JsonObject, at: str) -> Iterator[Refusal]:
    calls = message["tool_calls"]
    if message["role"] != "assistant":
        yield Refusal(
            "only an assistant message has tool_calls", f"{at}.tool_calls", "invalid_value"
        )
    if not isinstance(calls, list) or not calls:
        yield Refusal("tool_calls must be a filled array", f"{at}.tool_calls", "empty_array")
        return
    seen: set[str] = set()
    for index, call in enumerate(calls):
        place = f"{at}.tool_calls.[{index}]"
        yield from _one_call_faults(call, place)
        if call["id"] in seen:
            yield Refusal(f"duplicate tool call id {call['id']!r}", f"{place}.id", "invalid_value")
        seen.add(call["id"])


def _one_call_faults(call: Any, at: str) -> Iterator[Refusal]:
    if not isinstance(call, dict) or not (isinstance(call.get("id"), str) and call["id"]):
        yield Refusal("a tool call needs an id", f"{at}.id", "missing_required_parameter")
        return
    function = call.get("function")
    if call.get("type") != "function" or not isinstance(function, dict):
        yield Refusal("a tool call must be of type function", f"{at}.type", "invalid_value")
        return
    yield from _name_faults(function.get("name"), f"{at}.function.name")
    if not isinstance(function.get("arguments"), str):
        yield Refusal("arguments must be JSON text", f"{at}.function.arguments", "invalid_type")


def _name_faults(name: Any, at: str) -> Iterator[Refusal]:
    if not (isinstance(name, str) and FUNCTION_NAME.fullmatch(name)):
        yield Refusal(f"invalid name {name!r}: {FUNCTION_NAME.pattern}", at, "invalid_value")


def _pair_faults(messages: list[JsonObject]) -> Iterator[Refusal]:
    """Yields broken pairs: every call is answered right behind it, every result has its call."""
    called: set[str] = set()
    answered: set[str] = set()
    for index, message in enumerate([*messages, {"role": "end"}]):
        at = f"messages.[{index}].role"
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            if call_id not in called:
                yield Refusal(f"no call {call_id!r} right before this tool message", at)
            if call_id in answered:
                yield Refusal(f"a second tool message answers call {call_id!r}", at)
            answered.add(call_id)
            continue
        if missing := sorted(called - answered):
            yield Refusal(f"no tool message right after tool_calls {missing} answers them", at)
        called = {call["id"] for call in message.get("tool_calls") or ()}
        answered = set()


def _system_faults(messages: list[JsonObject]) -> Iterator[Refusal]:
    for index, message in enumerate(messages):
        if index and message["role"] in {"system", "developer"}:
            yield Refusal(
                "only one system message is accepted, and only as the first",
                f"messages.[{index}].role",
                "invalid_value",
            )


def _tool_faults(body: JsonObject) -> Iterator[Refusal]:
    for key in {"functions", "function_call"} & body.keys():
        yield Refusal(f"{key} is deprecated; Wire takes tools", key, "unsupported_value")
    tools = body.get("tools")
    if tools is None:
        for key in ("tool_choice", "parallel_tool_calls"):
            if body.get(key) is not None:
                yield Refusal(f"{key} without tools", key, "invalid_value")
        return
    if not isinstance(tools, list) or not tools:
        yield Refusal("tools must be a filled array", "tools", "empty_array")
        return
    for index, tool in enumerate(tools):
        at = f"tools.[{index}]"
        if not isinstance(tool, dict) or tool.get("type") != "function":
            yield Refusal("a tool must be of type function", f"{at}.type", "invalid_value")
            return
        yield from _function_faults(tool.get("function"), f"{at}.function")
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function":
        choices = [{"name": tool["function"]["name"]} for tool in tools]
        if choice.get("function") not in choices:
            yield Refusal(f"tool_choice names no tool: {choice}", "tool_choice", "invalid_value")


def _function_faults(function: Any, at: str) -> Iterator[Refusal]:
    if not isinstance(function, dict):
        yield Refusal("a tool must describe its function", at, "missing_required_parameter")
        return
    yield from _name_faults(function.get("name"), f"{at}.name")
    yield from _text_faults(function, "description", at)
    schema = function.get("parameters") or {}
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    shaped = isinstance(properties, dict) and all(isinstance(p, dict) for p in properties.values())
    if not shaped:
        yield Refusal("parameters must be a JSON schema", f"{at}.parameters", "invalid_type")


def _text_faults(owner: JsonObject, key: str, at: str) -> Iterator[Refusal]:
    if not isinstance(owner.get(key), str | None):
        yield Refusal(f"{key} must be text", f"{at}.{key}", "invalid_type")


def _format_faults(body: JsonObject) -> Iterator[Refusal]:
    form = body.get("response_format") or {"type": "text"}
    kind = form.get("type") if isinstance(form, dict) else None
    if kind not in ("text", "json_object", "json_schema"):
        yield Refusal(f"unknown type {kind!r}", "response_format.type", "invalid_value")
    if kind == "json_object" and "json" not in json.dumps(body["messages"]).lower():
        yield Refusal("json_object, but no message says json", "messages", "invalid_value")
    if kind == "json_schema":
        schema = form.get("json_schema")
        if not isinstance(schema, dict) or not isinstance(schema.get("schema"), dict):
            yield Refusal("json_schema without a schema", "response_format", "invalid_type")
            return
        yield from _name_faults(schema.get("name"), "response_format.json_schema.name")
        yield from _text_faults(schema, "description", "response_format.json_schema")
