"""The offline model as a chat service of Semantic Kernel: it translates, and `QuotingModel` answers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, ClassVar

from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.completion_usage import CompletionUsage
from semantic_kernel.connectors.ai.function_calling_utils import (
    update_settings_from_function_call_configuration,
)
from semantic_kernel.connectors.ai.open_ai import OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import (
    AuthorRole,
    ChatHistory,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    StreamingChatMessageContent,
    TextContent,
)

from ce_integrations.demo.quoting import MODEL, Call, QuotingModel, Said
from ce_integrations.mapping.content_blocks import call_args


class OfflineService(ChatCompletionClientBase):
    """Answers whole, with calls and usage; the model knows functions by their names, without their plugins'."""

    SUPPORTS_FUNCTION_CALLING: ClassVar[bool] = True

    _quoting: QuotingModel

    def __init__(self, quoting: QuotingModel) -> None:
        super().__init__(ai_model_id=MODEL)
        self._quoting = quoting

    async def _inner_get_chat_message_contents(
        self, chat_history: ChatHistory, settings: Any
    ) -> list[ChatMessageContent]:
        """Answer a request."""
        schemas = [_bare(tool["function"]) for tool in settings.tools or ()]
        reply = self._quoting.reply(list(map(_translate, chat_history.messages)), schemas)
        calls: list[Any] = [
            FunctionCallContent(id=call.id, name=call.name, arguments=json.dumps(call.args))
            for call in reply.calls
        ]
        usage = CompletionUsage(prompt_tokens=reply.sent_tokens, completion_tokens=reply.got_tokens)
        return [
            ChatMessageContent(
                role=AuthorRole.ASSISTANT,
                items=calls or [TextContent(text=reply.text)],
                metadata={"usage": usage},
            )
        ]

    async def _inner_get_streaming_chat_message_contents(
        self,
        chat_history: ChatHistory,
        settings: Any,
        function_invoke_attempt: int = 0,
    ) -> AsyncGenerator[list[StreamingChatMessageContent], Any]:
        """Answer a request in one piece."""
        for message in await self._inner_get_chat_message_contents(chat_history, settings):
            yield [
                StreamingChatMessageContent(
                    role=message.role,
                    items=list(message.items),  # type: ignore[arg-type]  # texts stream as they are
                    choice_index=0,
                    metadata=message.metadata,
                    function_invoke_attempt=function_invoke_attempt,
                )
            ]

    def get_prompt_execution_settings_class(self) -> type[OpenAIChatPromptExecutionSettings]:
        """Those of a model that knows tools."""
        return OpenAIChatPromptExecutionSettings

    def _update_function_choice_settings_callback(self) -> Any:
        return update_settings_from_function_call_configuration

    async def close(self) -> None:
        """There is nothing to close."""


def _short(name: str) -> str:
    return name.rpartition("-")[2]


def _bare(function: Mapping[str, Any]) -> dict[str, Any]:
    return {**function, "name": _short(function["name"])}


def _translate(message: ChatMessageContent) -> Said:
    results = [item for item in message.items if isinstance(item, FunctionResultContent)]
    if results:
        return Said("tool", str(results[0].result), answers=str(results[0].id))
    calls = [
        Call(str(item.id), _short(item.name or ""), call_args(vars(item)))
        for item in message.items
        if isinstance(item, FunctionCallContent)
    ]
    return Said(message.role.value, message.content, calls)
