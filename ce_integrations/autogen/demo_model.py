"""The offline model as a client of AutoGen: it translates, and `QuotingModel` answers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, ClassVar

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelInfo,
    RequestUsage,
    SystemMessage,
)

from ce_integrations.demo.quoting import MODEL, Call, QuotingModel, Said
from ce_integrations.mapping.content_blocks import call_args, text_of


# ruff: noqa: ARG002 - the signatures are AutoGen's


class OfflineClient(ChatCompletionClient):
    """Answers whole, or word by word with calls and usage in the last piece."""

    info: ClassVar[ModelInfo] = {
        "vision": False,
        "function_calling": True,
        "json_output": False,
        "structured_output": False,
        "family": "unknown",
    }

    def __init__(self, quoting: QuotingModel) -> None:
        self._quoting = quoting
        self._create_args = {"model": MODEL}
        self._used = RequestUsage(0, 0)

    async def create(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = (), **options: Any
    ) -> CreateResult:
        """Answer a request."""
        schemas = [tool if isinstance(tool, Mapping) else tool.schema for tool in tools]
        request = [part for message in messages for part in _translate(message)]
        reply = self._quoting.reply(request, schemas)
        usage = RequestUsage(reply.sent_tokens, reply.got_tokens)
        self._used.prompt_tokens += usage.prompt_tokens
        self._used.completion_tokens += usage.completion_tokens
        calls = [FunctionCall(call.id, json.dumps(call.args), call.name) for call in reply.calls]
        return CreateResult(
            finish_reason="function_calls" if calls else "stop",
            content=calls or reply.text,
            usage=usage,
            cached=False,
        )

    async def create_stream(
        self, messages: Sequence[LLMMessage], **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Answer a request piece by piece."""
        result = await self.create(messages, **options)
        if isinstance(result.content, str):
            for piece in result.content.split(" "):
                yield f"{piece} "
        yield result

    async def close(self) -> None:
        """There is nothing to close."""

    def actual_usage(self) -> RequestUsage:
        """What was used."""
        return self._used

    def total_usage(self) -> RequestUsage:
        """The same: nothing is cached."""
        return self._used

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = ()) -> int:
        """As the usage says it."""
        return sum(
            self._quoting.count(part.text) for message in messages for part in _translate(message)
        )

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = ()) -> int:
        """It reads whatever it is given."""
        return 1_000_000 - self.count_tokens(messages)

    @property
    def capabilities(self) -> ModelInfo:
        """What it can do."""
        return self.info

    @property
    def model_info(self) -> ModelInfo:
        """What it can do."""
        return self.info


def _translate(message: LLMMessage) -> list[Said]:
    if isinstance(message, FunctionExecutionResultMessage):
        return [Said("tool", result.content, answers=result.call_id) for result in message.content]
    if isinstance(message, AssistantMessage):
        if isinstance(message.content, str):
            return [Said("assistant", message.content)]
        calls = [Call(call.id, call.name, call_args(vars(call))) for call in message.content]
        return [Said("assistant", message.thought or "", calls)]
    role = "system" if isinstance(message, SystemMessage) else "user"
    return [Said(role, text_of(message.content))]
