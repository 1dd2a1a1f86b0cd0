"""A chat service of Semantic Kernel as the engine's model, for summaries."""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ce_engine import LlmRequest, LlmResponse
from ce_integrations.mapping.llm_response import llm_response


if TYPE_CHECKING:
    from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase


class SemanticKernelLlmAdapter:
    """An `LlmAdapter` that asks a chat service of Semantic Kernel.

    Give it a service of its own, not the one that your kernel has: an async client's connections belong
    to the event loop that opened them, and the engine has a loop of its own. Closing it is yours.
    """

    def __init__(self, service: ChatCompletionClientBase) -> None:
        self._service = service

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Ask the model, with the settings that its service has by itself."""
        contents: Any = import_module("semantic_kernel.contents")
        mapper: Any = import_module("ce_integrations.semantic_kernel.mapper")
        history = contents.ChatHistory()
        for part in request.messages:
            history.add_message({"role": part.role.value, "content": part.content})
        settings = self._service.instantiate_prompt_execution_settings()
        began = time.perf_counter()
        [reply, *_] = await self._service.get_chat_message_contents(history, settings)
        content = mapper.to_answer(reply).message.content
        usage = mapper.map_model_usage(reply)
        return llm_response(content, reply.ai_model_id or "", usage, began)
