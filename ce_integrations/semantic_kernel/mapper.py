"""Semantic Kernel's messages as the schema's, and the plan's steps as Semantic Kernel's messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from semantic_kernel.contents import (
    AuthorRole,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    TextContent,
)
from semantic_kernel.contents.history_reducer.chat_history_reducer_utils import SUMMARY_METADATA_KEY

from ce_engine import Answer, Extend, HostMessage, Message, Origin, Role, Shorten, Usage
from ce_integrations.mapping.content_blocks import TEXT, call_texts, changed, text_of, tool_requests
from ce_integrations.mapping.messages import ROLES, answer_from, author_of, host_message, valid_name
from ce_integrations.mapping.usage import usage_of


def split(native: ChatMessageContent) -> list[ChatMessageContent]:
    """A message with several results, as a filter that ends the loop leaves it, is as many messages."""
    results = _of(native, FunctionResultContent)
    if len(results) < 2:
        return [native]
    return [native.model_copy(update={"items": [result]}) for result in results]


def join(native: ChatMessageContent, parts: Sequence[ChatMessageContent]) -> ChatMessageContent:
    """And those that go out are one again."""
    return native.model_copy(update={"items": [item for part in parts for item in part.items]})


def to_schema(native: ChatMessageContent) -> HostMessage:
    """Map one message; what is neither text nor a call counts, and stays as it is."""
    role, origin = ROLES[native.role.value]
    if result := next(iter(_of(native, FunctionResultContent)), None):
        text, call_id = str(result.result), result.id or None
        return HostMessage(Message(role=role, content=text, tool_call_id=call_id), origin)
    calls, blocks = _of(native, FunctionCallContent), _blocks(native)
    if native.metadata.get(SUMMARY_METADATA_KEY):
        # A reducer's: the model said it to the framework, and nobody in the talk.
        role, origin = Role.USER, Origin.HOST_SUMMARY
    # A name goes out with an agent's instructions, too, and costs.
    speaker = author_of(native.name, Role.ASSISTANT if role is Role.SYSTEM else role)
    message = Message(role=role, content=text_of(blocks), author=speaker)
    message.tool_calls = tool_requests(calls) or None
    host = host_message(message, Origin.TOOL_CALL if calls else origin, blocks)
    host.arguments = call_texts(calls)
    return host


def _of(native: ChatMessageContent, kind: type[Any]) -> list[Any]:
    return [item for item in native.items if isinstance(item, kind)]


def _blocks(native: ChatMessageContent) -> list[Any]:
    """The content in the form in which it goes out."""
    apart = (FunctionCallContent, FunctionResultContent)
    return [item.to_dict() for item in native.items if not isinstance(item, apart)]


# Answers


def whole(chunks: Iterable[list[Any]]) -> ChatMessageContent:
    """The message that a stream makes: the first choice, with the usage that any chunk tells.

    Semantic Kernel's own sum refuses chunks whose models have different names, as the one with the
    usage may.
    """
    pieces = [piece for chunk in chunks for piece in chunk if piece.choice_index == 0]
    text = "".join(piece.content for piece in pieces)
    asks = [
        piece.model_copy(update={"ai_model_id": None, "inner_content": None, "metadata": {}})
        for piece in pieces
        if _of(piece, FunctionCallContent)
    ]
    calls = (
        _of(reduce(lambda total, piece: total + piece, asks), FunctionCallContent) if asks else []
    )
    usages = (
        usage for piece in reversed(pieces) if (usage := piece.metadata.get("usage")) is not None
    )
    ends = (piece.finish_reason for piece in pieces if piece.finish_reason is not None)
    return ChatMessageContent(
        role=AuthorRole.ASSISTANT,
        items=[*([TextContent(text=text)] if text else []), *calls],
        finish_reason=next(ends, None),
        metadata={"usage": next(usages, None)},
    )


def to_answer(native: ChatMessageContent) -> Answer:
    """Map what a model answered."""
    end = native.finish_reason
    return answer_from(to_schema(native), finish_reason=end.value if end else "")


def map_model_usage(native: ChatMessageContent) -> Usage | None:
    """The usage that the connector has from the provider."""
    usage: Any = native.metadata.get("usage")
    return usage_of(usage.model_dump()) if hasattr(usage, "model_dump") else None


# Back


def edited(native: ChatMessageContent, step: Shorten | Extend) -> ChatMessageContent:
    """A copy with another text, with its calls, pictures, the name and the metadata."""
    return native.model_copy(update={"items": _changed(native.items, step)})


def _changed(items: Sequence[Any], step: Shorten | Extend) -> list[Any]:
    """The items with another text; a result keeps its call's id, and stays the first."""
    if isinstance(items[0] if items else None, FunctionResultContent):
        result, *others = items
        new_text = changed(str(result.result), step)
        return [result.model_copy(update={"result": new_text}), *others]
    texts = [item for item in items if (item.to_dict() or {}).get("type") in TEXT]
    if len(texts) == 1:
        new_item = texts[0].model_copy(update={"text": changed(texts[0].text, step)})
        return [new_item if item is texts[0] else item for item in items]
    addition = TextContent(text=step.text)
    if isinstance(step, Extend):
        return [addition, *items] if step.before else [*items, addition]
    return [addition, *(item for item in items if not any(item is text for text in texts))]


def from_schema(message: Message) -> ChatMessageContent:
    """The message of a stored or new one."""
    role, name = AuthorRole(message.role.value), valid_name(message)
    if message.role is Role.TOOL:
        result = FunctionResultContent(
            id=message.tool_call_id or "", name=name or "tool", result=message.content
        )
        return ChatMessageContent(role=role, items=[result])
    calls = [
        FunctionCallContent(
            id=call.id or "", name=call.name, arguments=json.dumps(call.args, ensure_ascii=False)
        )
        for call in message.tool_calls or ()
    ]
    texts = [TextContent(text=message.content)] if message.content or not calls else []
    return ChatMessageContent(role=role, items=[*texts, *calls], name=name or None)
