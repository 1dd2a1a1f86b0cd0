"""The offline model as a chat generator of Haystack: it translates, and `QuotingModel` answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from haystack import component
from haystack.dataclasses import ChatMessage, StreamingChunk, ToolCall
from haystack.tools.tool import Tool

from ce_integrations.demo.quoting import MODEL, Call, QuotingModel, Reply, Said


@component
class OfflineChatGenerator:
    """Answers whole, or word by word to a callback."""

    def __init__(self, quoting: QuotingModel | None = None) -> None:
        self.model = MODEL
        self._quoting = quoting or QuotingModel()

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: Callable[[StreamingChunk], None] | None = None,
        tools: list[Tool] | None = None,
    ) -> dict[str, list[ChatMessage]]:
        """Answer, in the shape that Haystack wants."""
        schemas = [{"type": "function", "function": tool.tool_spec} for tool in tools or ()]
        reply = self.quoted(messages, schemas)
        if streaming_callback is not None:
            for piece in reply.pieces:
                streaming_callback(StreamingChunk(content=piece))
        return {"replies": [_message(reply)]}

    def quoted(self, messages: Sequence[ChatMessage], schemas: Sequence[Any]) -> Reply:
        """What the rule says to these messages and tools."""
        return self._quoting.reply([_translate(message) for message in messages], schemas)


def _message(reply: Reply) -> ChatMessage:
    prompt, answer = reply.sent_tokens, reply.got_tokens
    used = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
    calls = [ToolCall(call.name, dict(call.args), id=call.id) for call in reply.calls]
    meta = {"model": MODEL, "finish_reason": "tool_calls" if calls else "stop", "usage": used}
    return ChatMessage.from_assistant(reply.text or None, meta=meta, tool_calls=calls or None)


def _translate(message: ChatMessage) -> Said:
    calls = [Call(call.id or "", call.tool_name, call.arguments) for call in message.tool_calls]
    result = message.tool_call_result
    if result is None:
        return Said(message.role.value, message.text or "", calls, "")
    return Said(message.role.value, str(result.result), calls, result.origin.id or "")
