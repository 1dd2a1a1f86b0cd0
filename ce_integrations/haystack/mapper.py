"""Haystack's messages as the schema's, and the plan's steps as Haystack's messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from haystack.dataclasses import (
    ChatMessage,
    FileContent,
    ImageContent,
    TextContent,
    ToolCall,
)

import ce_engine as ce
from ce_integrations.mapping.content_blocks import call_args, changed, with_text
from ce_integrations.mapping.messages import ROLES, answer_from, author_of, host_message
from ce_integrations.mapping.usage import usage_of


COMPACTED = "context_compaction"
"""The key of a message's metadata by which Haystack's own compaction names what it wrote."""


def split(native: ChatMessage) -> list[ChatMessage]:
    """A message with the results of several calls is as many messages."""
    results = native.tool_call_results
    if len(results) < 2:
        return [native]
    return [replace(native, _content=[result]) for result in results]


def join(native: ChatMessage, parts: Sequence[ChatMessage]) -> ChatMessage:
    """And those that go out are one again."""
    return replace(native, _content=[content for part in parts for content in part._content])  # noqa: SLF001 - all of it has no public name


def to_schema(native: ChatMessage) -> ce.HostMessage:
    """Map one message; pictures and files count with digests and tokens and stay as they are."""
    role, origin = ROLES[native.role.value]
    result, calls = native.tool_call_result, native.tool_calls
    content: Sequence[Any] = native._content  # noqa: SLF001 - as in `join`
    if COMPACTED in native.meta:
        origin = ce.Origin.HOST_SUMMARY
    elif calls:
        origin = ce.Origin.TOOL_CALL
    message = ce.Message(role=role, content="", author=author_of(native.name, role))
    if result is not None:
        content = [TextContent(result.result)] if isinstance(result.result, str) else result.result
        message.tool_call_id = result.origin.id or None
        message.status = "error" if result.error else None
    message.content = text_of(content)
    message.tool_calls = [
        ce.ToolRequest(name=call.tool_name, id=call.id, args=call_args({"args": call.arguments}))
        for call in calls
    ] or None
    return host_message(message, origin, beside(content))


def text_of(content: Iterable[object]) -> str:
    """The text of a message's parts, or of those of a tool's result."""
    return "".join(part.text for part in content if isinstance(part, TextContent))


def beside(content: Iterable[object]) -> list[dict[str, Any]]:
    """Pictures and files, in the form that adapters share."""
    blocks: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, ImageContent):
            fields = {"data": part.base64_image, "detail": part.detail}
            blocks.append({"type": "image", "mime_type": part.mime_type, **fields})
        elif isinstance(part, FileContent):
            fields = {"data": part.base64_data, "filename": part.filename}
            blocks.append({"type": "file", "mime_type": part.mime_type, **fields})
    return blocks


# Answers


def to_answer(native: ChatMessage) -> ce.Answer:
    """Map what a model answered, with what it says of itself."""
    meta = native.meta
    return answer_from(
        to_schema(native), model=meta.get("model"), finish_reason=meta.get("finish_reason")
    )


def map_model_usage(native: ChatMessage) -> ce.Usage | None:
    """The usage that the provider told: a stream has none where nobody asked for it."""
    return usage_of(native.meta.get("usage"))


# Back


def edited(native: ChatMessage, step: ce.Shorten | ce.Extend) -> ChatMessage:
    """A copy with another text, with its calls, pictures, reasoning, name and metadata."""
    content = native._content  # noqa: SLF001 - as in `join`
    result = native.tool_call_result
    if result is None:
        return replace(native, _content=_changed(content, step))
    output: Any = result.result
    output = changed(output, step) if isinstance(output, str) else _changed(output, step)
    return replace(native, _content=[replace(result, result=output)])


def _changed(content: Sequence[Any], step: ce.Shorten | ce.Extend) -> list[Any]:
    return with_text(content, TextContent, TextContent(changed(text_of(content), step)))


def from_schema(message: ce.Message) -> ChatMessage:
    """The message of a stored or new one."""
    if message.role is ce.Role.SYSTEM:
        return ChatMessage.from_system(message.content)
    if message.role is ce.Role.USER:
        return ChatMessage.from_user(message.content)
    if message.role is ce.Role.TOOL:
        origin = ToolCall(tool_name="", arguments={}, id=message.tool_call_id)
        failed = message.status == "error"
        return ChatMessage.from_tool(message.content, origin=origin, error=failed)
    calls = [
        ToolCall(tool_name=call.name, arguments=dict(call.args), id=call.id)
        for call in message.tool_calls or ()
    ]
    return ChatMessage.from_assistant(message.content or None, tool_calls=calls or None)
