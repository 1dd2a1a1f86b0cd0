"""What a call costs: messages with their tool calls and media, tool schemas, response format (B-17, D-03)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ce_engine.ports.tokens import TokenEstimator
from ce_engine.schema.call import HostMessage, ModelCall
from ce_engine.schema.document import Message
from ce_engine.schema.json_text import json_text
from ce_engine.text.tokens import CharBasedEstimator, attachment_tokens


FALLBACK = "CONTEXT_BUDGET_FALLBACK"
"""The calculator of the budget failed, and another one took its place."""

GUESSED = "CONTEXT_MEDIA_ESTIMATED"
"""The size of a picture or a file is not known, and a default stands for it."""

PRIMING = 3
"""Tokens that a chat model adds before its reply."""

PER_TOOL_CALL = 8
"""Framing of one tool call inside a message; an upper bound."""


class Counter:
    """Counts for one estimator and model. One that fails is replaced by an upper bound (D-04)."""

    def __init__(
        self, estimator: TokenEstimator, model_hint: str | None, provider: str | None = None
    ) -> None:
        self._model, self._provider = model_hint, provider
        self.warnings: list[str] = []
        try:
            self._take(estimator)
        except Exception:  # noqa: BLE001 - an estimator of somebody else's may raise anything
            self._fall_back()

    def _take(self, estimator: TokenEstimator) -> None:
        self._estimator = estimator
        self.name = f"{estimator.name}/{self._model or ''}"
        self.exact = estimator.exact_for(self._model)
        self.description = estimator.describe(self._model)

    def _fall_back(self) -> None:
        self.warnings.append(FALLBACK)
        self._take(CharBasedEstimator())

    def _ask(self, ask: Callable[[TokenEstimator], int]) -> int:
        try:
            tokens: object = ask(self._estimator)
        except Exception:  # noqa: BLE001 - as above
            tokens = None
        if isinstance(tokens, int) and tokens >= 0:
            return tokens
        self._fall_back()
        return ask(self._estimator)

    def text(self, text: str) -> int:
        return self._ask(lambda estimator: estimator.estimate_text(text, self._model))

    def message(self, message: Message, arguments: Sequence[str] = ()) -> int:
        """Tokens of a message with framing and tool calls, whose `arguments` may go out as they were written."""
        role, content, model = message.role, message.content, self._model
        tokens = self._ask(lambda estimator: estimator.estimate_message(role, content, model))
        for n, call in enumerate(message.tool_calls or ()):
            args = (arguments[n] if n < len(arguments) else "") or json_text(call.args)
            tokens += self.text(f"{call.name}{args}{call.id or ''}") + PER_TOOL_CALL
        if message.tool_call_id:
            tokens += self.text(message.tool_call_id) + PER_TOOL_CALL
        if message.author is not None:
            tokens += self.text(message.author.id) + 1
        return tokens

    def host(self, host: HostMessage) -> int:
        """Tokens of a host message with its media; counted once for the same estimator and model."""
        media = self.media(host) if host.attachments else host.media_tokens
        if host.counted is None or host.counted[0] != self.name:
            host.counted = (self.name, self.message(host.message, host.arguments) + media)
        return host.counted[1]

    def media(self, host: HostMessage) -> int:
        """Tokens of what a host message has beside text and calls; warns where they are a guess."""
        tokens = host.media_tokens
        for attachment in host.attachments:
            more, is_known = attachment_tokens(attachment, self._model, self._provider)
            tokens += more
            if not is_known and GUESSED not in self.warnings:
                self.warnings.append(GUESSED)
        return tokens

    def schema(self, value: Mapping[str, Any]) -> int:
        """Tokens of a JSON schema as providers render it; an upper bound."""
        return self.text(json_text(value)) + PER_TOOL_CALL

    def extras(self, call: ModelCall) -> dict[str, int]:
        """Tokens that go out beside the messages, by kind."""
        tokens_by_kind = {"priming": PRIMING}
        if call.tools:
            tokens_by_kind["tools"] = sum(self.schema(tool) for tool in call.tools) + PER_TOOL_CALL
        if call.response_format:
            tokens_by_kind["response_format"] = self.schema(call.response_format)
        return tokens_by_kind


def cached_text_counter(counter: Counter) -> Callable[[str], int]:
    """Count texts that come again within one call only once."""
    tokens_by_text: dict[str, int] = {}

    def count(text: str) -> int:
        tokens = tokens_by_text.get(text)
        if tokens is None:
            tokens = tokens_by_text[text] = counter.text(text)
        return tokens

    return count
