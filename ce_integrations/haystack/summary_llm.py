"""A chat generator of Haystack as the engine's model, for summaries."""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ce_engine import LlmRequest, LlmResponse
from ce_integrations.calls.blocking import on_a_thread
from ce_integrations.mapping.llm_response import llm_response


if TYPE_CHECKING:
    from haystack.components.generators.chat.types import ChatGenerator


class HaystackLlmAdapter:
    """An `LlmAdapter` that asks a chat generator of Haystack.

    It is asked on a thread of its own, through `run`: the connections of its async client belong to the
    app's event loop. An installation on the generator does not see these calls. Limits go with it, such
    as `OpenAIChatGenerator(generation_kwargs={"max_completion_tokens": 512})`.
    """

    def __init__(self, generator: ChatGenerator) -> None:
        self._generator = generator

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Ask the model."""
        dataclasses: Any = import_module("haystack.dataclasses")
        mapper: Any = import_module("ce_integrations.haystack.mapper")
        messages = [
            dataclasses.ChatMessage.from_system(part.content)
            if part.role.value == "system"
            else dataclasses.ChatMessage.from_user(part.content)
            for part in request.messages
        ]
        began = time.perf_counter()
        reply = (await on_a_thread(lambda: self._run(messages)))["replies"][0]
        answer = mapper.to_answer(reply)
        return llm_response(
            answer.message.content, answer.model, mapper.map_model_usage(reply), began
        )

    def _run(self, messages: list[Any]) -> Any:
        generator: Any = self._generator
        if warm_up := getattr(generator, "warm_up", None):  # some load their model with it
            warm_up()
        return generator.run(messages=messages)
