"""AutoGen's messages as the schema's, and the plan's steps as AutoGen's messages."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from autogen_core import FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from ce_engine import (
    Answer,
    Attachment,
    Extend,
    HostMessage,
    Message,
    Origin,
    Role,
    Shorten,
    Usage,
)
from ce_integrations.autogen.agent_tool_messages import AgentToolMessage
from ce_integrations.mapping.content_blocks import call_texts, changed, tool_requests
from ce_integrations.mapping.messages import author_of, valid_name
from ce_integrations.mapping.usage import usage_of


NOBODY = "assistant"
"""The source that core agents give their own answers, whatever they are called."""

SKIPPED = re.compile(r"Skipped \d+ messages\.")
"""What `HeadAndTailChatCompletionContext` says, as source "System", in place of its middle."""


class Rule(SystemMessage):
    """A prompt of the framework's as the engine sees it, which goes out in the name of a speaker."""

    speaker: str


def split(native: LLMMessage) -> list[LLMMessage]:
    """A message with the results of several calls is as many messages."""
    if not isinstance(native, FunctionExecutionResultMessage) or len(native.content) < 2:
        return [native]
    return [native.model_copy(update={"content": [result]}) for result in native.content]


def join(
    native: FunctionExecutionResultMessage, parts: Sequence[FunctionExecutionResultMessage]
) -> LLMMessage:
    """And those that go out are one again."""
    results = [result for part in parts for result in part.content]
    return native.model_copy(update={"content": results})


def to_schema(native: LLMMessage) -> HostMessage:
    """Map one message; images count with digests and tokens and stay as they are."""
    if isinstance(native, FunctionExecutionResultMessage):
        return _from_result(next(iter(native.content), None))
    if isinstance(native, AssistantMessage):
        source = "" if native.source == NOBODY else native.source
        return _from_model(native.content, native.thought, source)
    if isinstance(native, SystemMessage):
        speaker = author_of(native.speaker, Role.USER) if isinstance(native, Rule) else None
        rule = Message(role=Role.SYSTEM, content=native.content, author=speaker)
        return HostMessage(rule, Origin.SYSTEM)
    if _is_placeholder(native):
        message = Message(role=Role.USER, content=_text(native.content))
        return HostMessage(message, Origin.HOST_SUMMARY)
    author = author_of(native.source, Role.USER)
    if isinstance(native, AgentToolMessage):
        author = author_of(native.by, Role.ASSISTANT)
    images = [] if isinstance(native.content, str) else _images(native.content)
    attachments = tuple(map(_attachment, images))
    return HostMessage(
        Message(role=Role.USER, content=_text(native.content), author=author),
        Origin.TASK,
        media=tuple(attachment.digest for attachment in attachments),
        attachments=attachments,
    )


def _is_placeholder(native: UserMessage) -> bool:
    content = native.content
    return (
        native.source == "System" and isinstance(content, str) and bool(SKIPPED.fullmatch(content))
    )


def _from_model(
    content: str | list[FunctionCall], thought: str | None, source: str = ""
) -> HostMessage:
    """What a model said. Beside calls, its thought goes out as the text; beside a text it does not."""
    author = author_of(source, Role.ASSISTANT)
    if isinstance(content, str):
        message = Message(role=Role.ASSISTANT, content=content, author=author)
        return HostMessage(message, Origin.ANSWER)
    calls = tool_requests(content)
    message = Message(role=Role.ASSISTANT, content=thought or "", author=author, tool_calls=calls)
    return HostMessage(message, Origin.TOOL_CALL, arguments=call_texts(content))


def _from_result(result: FunctionExecutionResult | None) -> HostMessage:
    """A result; a message without any, which nobody asked for, says nothing."""
    if result is None:
        return HostMessage(Message(role=Role.TOOL, content=""), Origin.TOOL_RESULT)
    message = Message(
        role=Role.TOOL,
        content=result.content,
        tool_call_id=result.call_id or None,
        status="error" if result.is_error else None,
    )
    return HostMessage(message, Origin.TOOL_RESULT, error=bool(result.is_error))


def _text(content: str | list[str | Image]) -> str:
    """The text; parts that stand for themselves, an image between them or not, do not run together."""
    if isinstance(content, str):
        return content
    text = ""
    for part in content:
        if isinstance(part, str) and part:
            apart = not text or text[-1].isspace() or part[0].isspace()
            text += part if apart else f" {part}"
    return text


def _images(content: list[str | Image]) -> list[Image]:
    return [part for part in content if isinstance(part, Image)]


def _attachment(image: Image) -> Attachment:
    """Clients send it as a PNG, in the size that it has."""
    pixels = image.image
    digest = hashlib.blake2b(f"{pixels.mode}{pixels.size}".encode(), digest_size=16)
    digest.update(pixels.tobytes())
    width, height = pixels.size
    return Attachment("image", "png", width=width, height=height, digest=digest.hexdigest())


# Answers


def to_answer(native: CreateResult) -> Answer:
    """Map what a model answered."""
    message = _from_model(native.content, native.thought).message
    return Answer(message, finish_reason=native.finish_reason)


def map_model_usage(native: CreateResult) -> Usage | None:
    """The usage that the provider told."""
    if native.cached:
        return Usage(cached=True)
    return usage_of(vars(native.usage))


# Back


def edited(native: LLMMessage, step: Shorten | Extend) -> LLMMessage:
    """A copy with another text, with its calls, images and the source."""
    return native.model_copy(update=_update(step, native))


def _update(step: Shorten | Extend, native: LLMMessage) -> dict[str, Any]:
    if isinstance(native, FunctionExecutionResultMessage):
        first = native.content[0]
        result = first.model_copy(update={"content": changed(first.content, step)})
        return {"content": [result]}
    if isinstance(native, AssistantMessage) and not isinstance(native.content, str):
        return {"thought": changed(native.thought or "", step)}
    if not isinstance(native, UserMessage) or isinstance(native.content, str):
        return {"content": changed(native.content, step)}
    if isinstance(step, Shorten):
        return {"content": [step.text, *_images(native.content)]}
    parts = [step.text, *native.content] if step.before else [*native.content, step.text]
    return {"content": parts}


def from_schema(message: Message) -> LLMMessage:
    """The message of a stored or new one."""
    if message.role is Role.SYSTEM:
        return SystemMessage(content=message.content)
    if message.role is Role.USER:
        return UserMessage(content=message.content, source=valid_name(message, "user"))
    if message.role is Role.TOOL:
        result = FunctionExecutionResult(
            content=message.content,
            name=valid_name(message, "tool"),
            call_id=message.tool_call_id or "",
            is_error=message.status == "error",
        )
        return FunctionExecutionResultMessage(content=[result])
    calls = [
        FunctionCall(
            id=call.id or "", name=call.name, arguments=json.dumps(call.args, ensure_ascii=False)
        )
        for call in message.tool_calls or ()
    ]
    source = valid_name(message, "assistant")
    if not calls:
        return AssistantMessage(content=message.content, source=source)
    return AssistantMessage(content=calls, thought=message.content or None, source=source)
