"""A model of CrewAI as the engine's, for summaries."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ce_engine import LlmRequest, LlmResponse
from ce_integrations.calls.blocking import on_a_thread
from ce_integrations.mapping.llm_response import llm_response


if TYPE_CHECKING:
    from crewai import BaseLLM


class CrewAILlmAdapter:
    """An `LlmAdapter` that asks a model of CrewAI.

    It is asked on a thread of its own, through `call`. An installation on the model does not see these
    calls. What they used is estimated: the model sums it up over all its calls. Limits go with the
    model, such as `LLM(model=..., max_tokens=512)`.
    """

    def __init__(self, llm: BaseLLM) -> None:
        self._llm = llm

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Ask the model."""
        messages: list[Any] = [
            {"role": part.role.value, "content": part.content} for part in request.messages
        ]
        began = time.perf_counter()
        answer = await on_a_thread(lambda: self._llm.call(messages))
        return llm_response(str(answer), str(self._llm.model), None, began)
