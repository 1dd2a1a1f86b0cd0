"""The app's own LangChain model as the engine's, for summaries."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from ce_engine import LlmRequest, LlmResponse
from ce_integrations.blocks import text_of
from ce_integrations.usage import usage_of


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
        started = time.perf_counter()
        try:
            answer = await _on_a_thread(self._model, messages)
        except NotImplementedError:
            answer = await self._model.ainvoke(messages)
        took = int((time.perf_counter() - started) * 1000)
        if isinstance(answer, str):  # of a model for texts
            return LlmResponse(answer, latency_ms=took)
        usage = usage_of(getattr(answer, "usage_metadata", None))
        told = answer.response_metadata
        return LlmResponse(
            text_of(answer.content),
            str(told.get("model_name") or told.get("model") or ""),
            usage.prompt_tokens if usage else 0,
            usage.completion_tokens if usage else 0,
            usage.total_tokens if usage else 0,
            took,
        )


async def _on_a_thread(
    model: Runnable[LanguageModelInput, Any], messages: LanguageModelInput
) -> Any:
    """Invoke on a daemon thread: a model that hangs must not hold up the end of the process."""
    done: Future[Any] = Future()
    done.set_running_or_notify_cancel()  # whoever waits may go, the thread goes on

    def ask() -> None:
        try:
            done.set_result(model.invoke(messages))
        except BaseException as error:  # noqa: BLE001 - handed on to who waits
            done.set_exception(error)

    context = copy_context()
    threading.Thread(target=context.run, args=(ask,), name="ce-llm", daemon=True).start()
    return await asyncio.wrap_future(done)
