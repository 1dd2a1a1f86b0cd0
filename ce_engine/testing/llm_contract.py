"""What every model of the engine's own must do, as tests: subclass `LlmAdapterContract` and give it a fixture (A-27)."""

from __future__ import annotations

import pytest

from ce_engine.ports.llm import LlmAdapter, LlmRequest, LlmResponse
from ce_engine.schema.enums import Role
from ce_engine.schema.report import MessagePart


class LlmAdapterContract:
    """Everything that `ports.LlmAdapter` promises.

    A subclass gives a fixture `llm_adapter` whose model answers something that is not empty.
    """

    pytestmark = pytest.mark.anyio

    @staticmethod
    def request(**more: object) -> LlmRequest:
        """Instructions and a question, as summaries and judges ask."""
        parts = [
            MessagePart(role=Role.SYSTEM, content="Answer in one word. 用一个词回答。"),
            MessagePart(role=Role.USER, content="Which city is the capital of France? 法国首都?"),
        ]
        return LlmRequest(parts, **more)  # type: ignore[arg-type]  # a test names them

    async def test_it_answers(self, llm_adapter: LlmAdapter) -> None:
        response = await llm_adapter.generate(self.request())
        assert isinstance(response, LlmResponse)
        assert response.content.strip()

    async def test_tokens_are_told_and_add_up(self, llm_adapter: LlmAdapter) -> None:
        """0 says that the provider told none."""
        response = await llm_adapter.generate(self.request(max_tokens=50, temperature=0.0))
        counts = response.prompt_tokens, response.completion_tokens
        assert min(*counts, response.latency_ms) >= 0
        assert response.total_tokens in (0, sum(counts))

    async def test_what_it_is_given_stays_as_it_is(self, llm_adapter: LlmAdapter) -> None:
        request = self.request(max_tokens=50)
        await llm_adapter.generate(request)
        assert request == self.request(max_tokens=50)

    async def test_it_answers_again(self, llm_adapter: LlmAdapter) -> None:
        for _ in range(3):
            assert (await llm_adapter.generate(self.request())).content.strip()
