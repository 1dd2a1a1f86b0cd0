"""What a call costs: messages with their tool calls and media, tool schemas, response format (B-17, D-03)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ce_engine.ports import TokenEstimator
from ce_engine.schema.call import HostMessage, ModelCall
from ce_engine.schema.document import Message


PRIMING = 3
"""Tokens that a chat model adds before its reply."""

PER_TOOL_CALL = 8
"""Framing of one tool call inside a message; an upper bound."""


class Counter:
    """Counts for one estimator and model."""

    def __init__(self, estimator: TokenEstimator, model_hint: str | None) -> None:
        self._estimator = estimator
        self._model = model_hint
        self.name = f"{estimator.name}/{model_hint or ''}"
        self.exact = estimator.exact_for(model_hint)
        self.description = estimator.describe(model_hint)

    def text(self, text: str) -> int:
        return self._estimator.estimate_text(text, self._model)

    def message(self, message: Message) -> int:
        """Tokens of a message with framing and tool calls."""
        tokens = self._estimator.estimate_message(message.role, message.content, self._model)
        for call in message.tool_calls or ():
            args = json.dumps(call.args, ensure_ascii=False, default=str)
            tokens += self.text(f"{call.name}{args}{call.id or ''}") + PER_TOOL_CALL
        if message.tool_call_id:
            tokens += self.text(message.tool_call_id) + PER_TOOL_CALL
        if message.author is not None:
            tokens += self.text(message.author.id) + 1
        return tokens

    def host(self, host: HostMessage) -> int:
        """Tokens of a host message with its media; counted once for the same estimator and model."""
        if host.counted is None or host.counted[0] != self.name:
            host.counted = (self.name, self.message(host.message) + host.media_tokens)
        return host.counted[1]

    def schema(self, value: Mapping[str, Any]) -> int:
        """Tokens of a JSON schema as providers render it; an upper bound."""
        return self.text(json.dumps(value, ensure_ascii=False, default=str)) + PER_TOOL_CALL

    def extras(self, call: ModelCall) -> dict[str, int]:
        """Tokens that go out beside the messages, by kind."""
        found = {"priming": PRIMING}
        if call.tools:
            found["tools"] = sum(self.schema(tool) for tool in call.tools) + PER_TOOL_CALL
        if call.response_format:
            found["response_format"] = self.schema(call.response_format)
        return found


def cached_text_counter(counter: Counter) -> Callable[[str], int]:
    """Count texts that come again within one call only once."""
    known: dict[str, int] = {}

    def count(text: str) -> int:
        tokens = known.get(text)
        if tokens is None:
            tokens = known[text] = counter.text(text)
        return tokens

    return count
