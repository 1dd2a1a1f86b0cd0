"""A model client of AutoGen as the engine's model, for summaries."""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ce_engine import LlmRequest, LlmResponse, Role
from ce_integrations.mapping.llm_response import llm_response


if TYPE_CHECKING:
    from autogen_core.models import ChatCompletionClient


class AutoGenLlmAdapter:
    """An `LlmAdapter` that asks a model client of AutoGen.

    Give it a client of its own, not the one that your agents use: an async client's connections belong
    to the event loop that opened them, and the engine has a loop of its own. Limits go with the client.
    Closing the client is yours.
    """

    def __init__(self, client: ChatCompletionClient) -> None:
        self._client = client

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Ask the model."""
        models: Any = import_module("autogen_core.models")
        mapper: Any = import_module("ce_integrations.autogen.mapper")
        messages = [
            models.SystemMessage(content=part.content)
            if part.role is Role.SYSTEM
            else models.UserMessage(content=part.content, source="user")
            for part in request.messages
        ]
        began = time.perf_counter()
        result = await self._client.create(messages)
        content = mapper.to_answer(result).message.content
        return llm_response(content, "", mapper.map_model_usage(result), began)
