"""The app's own LlamaIndex model as the engine's, for summaries."""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ce_engine import LlmRequest, LlmResponse
from ce_integrations.calls.blocking import on_a_thread
from ce_integrations.mapping.llm_response import llm_response


if TYPE_CHECKING:
    from llama_index.core.llms import LLM


class LlamaIndexLlmAdapter:
    """An `LlmAdapter` that asks a model of LlamaIndex.

    It is asked on a thread of its own, through `chat`: the connections of its async client belong to
    the app's event loop. An installation on the model does not see these calls. Limits go with the
    model, such as `OpenAI(max_tokens=512)`.
    """

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Ask the model."""
        mapper: Any = import_module("ce_integrations.llamaindex.mapper")
        messages = [
            mapper.ChatMessage(role=part.role.value, content=part.content)
            for part in request.messages
        ]
        began = time.perf_counter()
        response = await on_a_thread(lambda: self._llm.chat(messages))
        answer = mapper.to_answer(response)
        usage = mapper.map_model_usage(response)
        return llm_response(answer.message.content, answer.model, usage, began)
