"""The app's own LangChain model as the engine's, for summaries."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ce_engine import LlmRequest, LlmResponse
from ce_integrations.calls.blocking import on_a_thread
from ce_integrations.mapping.content_blocks import text_of
from ce_integrations.mapping.llm_response import llm_response
from ce_integrations.mapping.usage import usage_of


if TYPE_CHECKING:
    from langchain_core.language_models import LanguageModelInput
    from langchain_core.runnables import Runnable


class LangChainLlmAdapter:
    """An `LlmAdapter` that asks a chat model of LangChain, or anything else that takes messages.

    It is asked on a thread of its own, through `invoke`: the connections of its async client belong
    to the app's event loop. A model that can only be awaited is awaited. An installation on the model
    does not see these calls. Limits go with the model (`model.bind(max_tokens=512)`), since providers
    call them by different names.
    """

    def __init__(self, model: Runnable[LanguageModelInput, Any]) -> None:
        self._model = model

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Ask the model."""
        messages = [(part.role.value, part.content) for part in request.messages]
        began = time.perf_counter()
        try:
            answer = await on_a_thread(lambda: self._model.invoke(messages))
        except NotImplementedError:
            answer = await self._model.ainvoke(messages)
        if isinstance(answer, str):  # of a model for texts
            return llm_response(answer, "", None, began)
        meta = answer.response_metadata
        model = str(meta.get("model_name") or meta.get("model") or "")
        usage = usage_of(getattr(answer, "usage_metadata", None))
        return llm_response(text_of(answer.content), model, usage, began)
