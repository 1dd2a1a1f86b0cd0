"""LlamaIndex messages as the schema's, and the plan's steps as LlamaIndex messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse

import ce_engine as ce
from ce_integrations.histories.written_tool_calls import WrittenCall, read
from ce_integrations.mapping.chat_completions import call_dict
from ce_integrations.mapping.content_blocks import (
    BYTES_PER_TOKEN,
    CALLS,
    REASONING,
    call_texts,
    changed,
    fields_of,
    raw_args,
    tool_requests,
    with_text,
)
from ce_integrations.mapping.messages import ROLES, answer_from, host_message
from ce_integrations.mapping.usage import usage_of


TextBlock = types.TextBlock
# Before 0.14 there is none: calls stand in `additional_kwargs` alone.
ToolCallBlock: Any = getattr(types, "ToolCallBlock", None)

_NO_MEDIA = CALLS | {"text", "cache"}

_CALL_IDS = ("id", "tool_id", "tool_call_id", "toolUseId")
"""Keys of a call's id: those of most providers, of the framework's `ToolSelection`, of Bedrock."""

_TOKENS = (
    ("input_tokens", ("prompt_token_count", "prompt_eval_count")),
    ("output_tokens", ("candidates_token_count", "eval_count")),
    ("total_tokens", ("total_token_count",)),
)
"""Names of Gemini and Ollama for what others call as on the left."""


def to_schema(native: ChatMessage) -> ce.HostMessage:
    """Map one message; blocks that are no text count with digests and tokens and stay as they are."""
    word = getattr(native.role, "value", native.role)
    role, origin = ROLES.get(word, ROLES["user"])
    protected = word not in ROLES
    requests = list(_calls(native)) if role is ce.Role.ASSISTANT else []
    calls = tool_requests(requests)
    call_id = native.additional_kwargs.get("tool_call_id") if role is ce.Role.TOOL else None
    reading = WrittenCall(native.content or "", calls)
    if not (calls or call_id or role is ce.Role.SYSTEM):
        reading = read(role, native.content or "")
    if reading.calls:
        origin = ce.Origin.TOOL_CALL
    elif role is ce.Role.TOOL or (role is ce.Role.USER and reading.beside):
        role, origin = ROLES["tool"]
        protected = not call_id  # nothing but its place pairs it, and it may be a person's words
    message = ce.Message(
        role=role, content=reading.text, tool_calls=reading.calls or None, tool_call_id=call_id
    )
    host = host_message(message, origin, media_of(native.blocks), protected=protected)
    host.media_tokens += -(-len(reading.beside) // BYTES_PER_TOKEN)
    # As OpenAI's integration (0.8) writes what is no text, with escapes for what is beyond ASCII.
    texts = zip(call_texts(requests), calls, strict=True)
    host.arguments = tuple(text or json.dumps(call.args, default=str) for text, call in texts)
    return host


def media_of(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    """The blocks that are neither text nor calls, in the form that adapters share."""
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return []
    kinds = ((block, getattr(block, "block_type", "")) for block in blocks)
    return [{"type": kind, **vars(block)} for block, kind in kinds if kind not in _NO_MEDIA]


def _calls(native: ChatMessage) -> Iterator[dict[str, Any]]:
    """Name, id and arguments of calls: of blocks, else as an integration keeps its provider's, objects or dicts."""
    blocks: list[Any] = [block for block in native.blocks if _is_call(block)]
    for block in blocks:
        yield {"name": block.tool_name, "id": block.tool_call_id, "args": block.tool_kwargs}
    if not blocks:
        yield from _of_provider(native.additional_kwargs.get("tool_calls") or ())


def _is_call(block: object) -> bool:
    return ToolCallBlock is not None and isinstance(block, ToolCallBlock)


def _of_provider(calls: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for call in calls:
        fields = fields_of(call)
        function = fields_of(fields.get("function") or fields)
        name = function.get("name") or function.get("tool_name") or ""
        args = fields["tool_kwargs"] if "tool_kwargs" in fields else raw_args(function)
        call_id = next((fields[key] for key in _CALL_IDS if fields.get(key)), None)
        yield {"name": name, "id": call_id, "args": args}


# Answers


def to_answer(native: ChatResponse | CompletionResponse) -> ce.Answer:
    """Map what a model answered, with what it says of itself."""
    raw, host = native.raw, to_schema(message_of(native))
    choice = next(iter(_get_field(raw, "choices") or ()), None)
    finish = _get_field(choice, "finish_reason") or _get_field(raw, "stop_reason")
    return answer_from(host, model=_get_field(raw, "model"), finish_reason=finish)


def message_of(native: ChatResponse | CompletionResponse) -> ChatMessage:
    """The message of an answer; that of a model for texts is made."""
    if isinstance(native, ChatResponse):
        return native.message
    return ChatMessage(role="assistant", content=native.text)


def map_model_usage(native: ChatResponse | CompletionResponse) -> ce.Usage | None:
    """The usage that an answer carries: in the provider's own answer, else beside it."""
    raw = native.raw
    usage = _get_field(raw, "usage") or _get_field(raw, "usage_metadata")
    if usage is None and _get_field(raw, "eval_count") is not None:
        usage = raw
    counts = _dumped(usage) or {}
    for name, others in _TOKENS:
        if name not in counts and (
            count := next((counts[o] for o in others if counts.get(o)), None)
        ):
            counts = {**counts, name: count}
    return usage_of(counts) or usage_of(native.additional_kwargs)


def _get_field(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _dumped(value: Any) -> Mapping[str, Any] | None:
    if value is None or isinstance(value, Mapping):
        return value
    return dict(value.model_dump()) if hasattr(value, "model_dump") else vars(value)


# Back


def edited(native: ChatMessage, step: ce.Shorten | ce.Extend) -> ChatMessage:
    """A copy with another text, with its calls, media and all that an integration keeps in it."""
    kinds = {getattr(block, "block_type", "") for block in native.blocks}
    if kinds & REASONING:
        return native  # what is signed must go back as it came
    text, mapped = native.content or "", to_schema(native).message
    prefix = text[: -len(mapped.content)] if mapped.role is ce.Role.TOOL and mapped.content else ""
    text_block = TextBlock(text=prefix + changed(text[len(prefix) :], step))
    return native.model_copy(update={"blocks": with_text(native.blocks, TextBlock, text_block)})


def from_schema(message: ce.Message) -> ChatMessage:
    """The message of a stored or new one."""
    blocks: list[Any] = [TextBlock(text=message.content)]
    beside: dict[str, Any] = {}
    if message.role is ce.Role.TOOL:
        beside["tool_call_id"] = message.tool_call_id or ""
    for call in message.tool_calls or ():
        if ToolCallBlock is not None:
            fields = {"tool_call_id": call.id, "tool_name": call.name, "tool_kwargs": call.args}
            blocks.append(ToolCallBlock(**fields))
        else:
            request = call_dict(call.id, call.name, call.args)
            beside.setdefault("tool_calls", []).append(request)
    return ChatMessage(role=message.role.value, blocks=blocks, additional_kwargs=beside)
