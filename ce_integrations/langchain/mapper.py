"""LangChain messages as the schema's, and the plan's steps as LangChain messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from ce_engine import (
    Answer,
    Extend,
    HostMessage,
    Message,
    Origin,
    Role,
    Shorten,
    ToolRequest,
    Usage,
)
from ce_integrations.mapping.content_blocks import (
    CALLS,
    REASONING,
    call_args,
    changed,
    kind_of,
    other_blocks,
    text_of,
)
from ce_integrations.mapping.messages import ROLES, answer_from, author_of, host_message
from ce_integrations.mapping.usage import usage_of


SUMMARY = "summarization"
"""`lc_source` of the message in which SummarizationMiddleware hands on its summary."""


def to_schema(native: BaseMessage) -> HostMessage:
    """Map one message; parts that are no text count with digests and tokens and stay as they are."""
    if isinstance(native, AIMessage):
        return _from_model(native)
    if isinstance(native, ToolMessage):
        error, call_id = native.status == "error", native.tool_call_id
        return _host(native, Role.TOOL, Origin.TOOL_RESULT, call_id=call_id, error=error)
    if isinstance(native, FunctionMessage):  # it has no id: nothing but its place pairs it
        return _host(native, Role.TOOL, Origin.TOOL_RESULT, protected=True)
    results = [b for b in other_blocks(native.content) if b.get("type") == "tool_result"]
    if results:
        return _from_results(native, results)
    word = "system" if isinstance(native, SystemMessage) else getattr(native, "role", native.type)
    role, origin = ROLES.get(word, (Role.USER, Origin.TASK))
    if origin is Origin.TASK and (source := native.additional_kwargs.get("lc_source")):
        # The agent's harness wrote it, not a person.
        origin = Origin.HOST_SUMMARY if source == SUMMARY else Origin.COLLEAGUE
    is_known = isinstance(native, HumanMessage | SystemMessage | ChatMessage)
    # A role that somebody wrote has no call's id: nothing but its place pairs a result.
    return _host(native, role, origin, protected=not is_known or role is Role.TOOL)


def _host(
    native: BaseMessage,
    role: Role,
    origin: Origin,
    *,
    content: str | None = None,
    calls: list[ToolRequest] | None = None,
    call_id: str | None = None,
    error: bool = False,
    protected: bool = False,
) -> HostMessage:
    message = Message(
        role=role,
        content=text_of(native.content) if content is None else content,
        author=author_of(native.name, role),
        tool_calls=calls or None,
        tool_call_id=call_id,
        status="error" if error else None,
    )
    return host_message(message, origin, native.content, host_id=native.id, protected=protected)


def _from_model(native: AIMessage) -> HostMessage:
    requests: list[Mapping[str, Any]] = [*native.tool_calls, *native.invalid_tool_calls]
    known_ids = {call.get("id") for call in requests}
    for block in other_blocks(native.content):
        call_id = block.get("call_id") or block.get("id")
        if kind_of(block) in CALLS and call_id not in known_ids:
            known_ids.add(call_id)
            requests.append({**block, "id": call_id})
    legacy = native.additional_kwargs.get("function_call")
    calls = [
        ToolRequest(name=call.get("name") or "", id=call.get("id"), args=call_args(call))
        for call in requests or ([legacy] if legacy else [])
    ]
    origin = Origin.TOOL_CALL if calls else Origin.ANSWER
    return _host(native, Role.ASSISTANT, origin, calls=calls, protected=bool(legacy))


def _from_results(native: BaseMessage, results: list[Mapping[Any, Any]]) -> HostMessage:
    """Anthropic's form: results as blocks of a message of the user, who may have said something, too."""
    text = text_of(native.content)
    content = "".join(text_of(result.get("content") or "") for result in results)
    first, *more = (str(result.get("tool_use_id") or "") for result in results)
    host = _host(
        native,
        Role.TOOL,
        Origin.TOOL_RESULT,
        content=text + content,
        call_id=first,
        error=any(result.get("is_error") for result in results),
        protected=bool(text),
    )
    host.more_call_ids = tuple(more)
    return host


# Answers


def to_answer(native: BaseMessage) -> Answer:
    """Map what a model answered, with what it says of itself."""
    metadata = native.response_metadata
    return answer_from(
        to_schema(native),
        model=metadata.get("model_name") or metadata.get("model"),
        provider=metadata.get("model_provider"),
        finish_reason=metadata.get("finish_reason") or metadata.get("stop_reason"),
    )


def map_model_usage(native: BaseMessage) -> Usage | None:
    """The usage that an answer carries, `cached` where LangChain's cache gave it."""
    usage_metadata = getattr(native, "usage_metadata", None)
    usage = usage_of(usage_metadata)
    # Its mark on a cache hit, which nothing else sets: the tokens are those of the first time.
    return Usage(cached=True) if usage_metadata and usage_metadata.get("total_cost") == 0 else usage


# Back


def edited(native: BaseMessage, step: Shorten | Extend) -> BaseMessage:
    """A copy with another text, with its ids, artifacts and all parts that are no text."""
    if _has_reasoning(native):
        return native  # what is signed must go back as it came
    return native.model_copy(update={"content": changed(native.content, step)})


def _has_reasoning(native: BaseMessage) -> bool:
    kinds = {kind_of(block) for block in other_blocks(native.content)}
    return bool(kinds & REASONING) or "reasoning_content" in native.additional_kwargs


def from_schema(message: Message) -> BaseMessage:
    """The message of a stored or new one."""
    if message.role is Role.TOOL:
        return ToolMessage(content=message.content, tool_call_id=message.tool_call_id or "")
    if message.role is Role.ASSISTANT:
        calls = [{**call.model_dump(), "type": "tool_call"} for call in message.tool_calls or ()]
        return AIMessage(content=message.content, tool_calls=calls)
    kind = SystemMessage if message.role is Role.SYSTEM else HumanMessage
    return kind(content=message.content)
