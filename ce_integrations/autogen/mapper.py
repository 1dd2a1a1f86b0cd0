"""AutoGen's messages as the schema's, and the plan's steps as AutoGen's messages."""

from __future__ import annotations

import hashlib
import json
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
    Author,
    AuthorKind,
    Extend,
    HostMessage,
    Insert,
    Keep,
    Message,
    Origin,
    Restore,
    Role,
    Shorten,
    Step,
    Usage,
    image_tokens,
)
from ce_integrations.blocks import changed, text_of, tool_requests


def to_schema(native: LLMMessage) -> HostMessage:
    """Map one message; images count with digests and tokens and stay as they are."""
    if isinstance(native, FunctionExecutionResultMessage):
        return _from_results(native.content)
    if isinstance(native, AssistantMessage):
        author = Author(kind=AuthorKind.AGENT, id=native.source)
        return _from_model(native.content, native.thought, author)
    if isinstance(native, SystemMessage):
        return HostMessage(Message(role=Role.SYSTEM, content=native.content), Origin.SYSTEM)
    author = Author(kind=AuthorKind.USER, id=native.source)
    images = [] if isinstance(native.content, str) else _images(native.content)
    return HostMessage(
        Message(role=Role.USER, content=text_of(native.content), author=author),
        Origin.TASK,
        media=tuple(map(_digest, images)),
        media_tokens=sum(image_tokens(*image.image.size) for image in images),
    )


def _from_model(
    content: str | list[FunctionCall], thought: str | None, author: Author | None
) -> HostMessage:
    """What a model said. Beside calls, its thought goes out as the text; beside a text it does not."""
    if isinstance(content, str):
        said = Message(role=Role.ASSISTANT, content=content, author=author)
        return HostMessage(said, Origin.ANSWER)
    said = Message(
        role=Role.ASSISTANT,
        content=thought or "",
        author=author,
        tool_calls=tool_requests(content),
    )
    return HostMessage(said, Origin.TOOL_CALL)


def _from_results(results: list[FunctionExecutionResult]) -> HostMessage:
    first, *more = results
    error = any(result.is_error for result in results)
    message = Message(
        role=Role.TOOL,
        content="".join(result.content for result in results),
        tool_call_id=first.call_id or None,
        status="error" if error else None,
    )
    ids = tuple(result.call_id for result in more)
    return HostMessage(message, Origin.TOOL_RESULT, error=error, more_call_ids=ids)


def _images(content: list[str | Image]) -> list[Image]:
    return [part for part in content if isinstance(part, Image)]


def _digest(image: Image) -> str:
    pixels = image.image
    said = f"{pixels.mode}{pixels.size}".encode()
    return hashlib.blake2b(said + pixels.tobytes(), digest_size=16).hexdigest()


# Answers


def to_answer(native: CreateResult) -> Answer:
    """Map what a model answered."""
    message = _from_model(native.content, native.thought, None).message
    return Answer(message, finish_reason=native.finish_reason)


def map_model_usage(native: CreateResult) -> Usage | None:
    """The usage that the provider told: a stream's is zero where nobody asked for it."""
    if native.cached:
        return Usage(cached=True)
    prompt, completion = native.usage.prompt_tokens, native.usage.completion_tokens
    return Usage(prompt, completion, prompt + completion) if prompt or completion else None


# Back


def to_native(step: Step, native: LLMMessage | None) -> LLMMessage:
    """Make the message of a step; a copy keeps calls, images and the source."""
    if isinstance(step, Insert):
        return SystemMessage(content=step.text)
    if isinstance(step, Restore):
        return _restored(step.message)
    if native is None:
        raise ValueError(f"{type(step).__name__} needs the host's message")
    if isinstance(step, Keep):
        return native
    return native.model_copy(update=_update(step, native))


def _update(step: Shorten | Extend, native: LLMMessage) -> dict[str, Any]:
    if isinstance(native, FunctionExecutionResultMessage):
        first, *others = native.content
        made = first.model_copy(update={"content": changed(first.content, step)})
        return {"content": [made, *others]}
    if isinstance(native, AssistantMessage) and not isinstance(native.content, str):
        return {"thought": changed(native.thought or "", step)}
    if not isinstance(native, UserMessage) or isinstance(native.content, str):
        return {"content": changed(native.content, step)}
    if isinstance(step, Shorten):
        return {"content": [step.text, *_images(native.content)]}
    parts = [step.text, *native.content] if step.before else [*native.content, step.text]
    return {"content": parts}


def _restored(message: Message) -> LLMMessage:
    name = message.author.id if message.author is not None else ""
    if message.role is Role.SYSTEM:
        return SystemMessage(content=message.content)
    if message.role is Role.USER:
        return UserMessage(content=message.content, source=_valid(name, "user"))
    if message.role is Role.TOOL:
        result = FunctionExecutionResult(
            content=message.content,
            name=_valid(name, "tool"),
            call_id=message.tool_call_id or "",
            is_error=message.status == "error",
        )
        return FunctionExecutionResultMessage(content=[result])
    calls = [
        FunctionCall(id=call.id or "", name=call.name, arguments=json.dumps(call.args))
        for call in message.tool_calls or ()
    ]
    source = _valid(name, "assistant")
    if not calls:
        return AssistantMessage(content=message.content, source=source)
    return AssistantMessage(content=calls, thought=message.content or None, source=source)


def _valid(name: str, default: str) -> str:
    """A name that every client takes: others raise for any sign beside these."""
    valid = 0 < len(name) <= 64 and name.isascii() and name.replace("-", "_").isidentifier()
    return name if valid else default
