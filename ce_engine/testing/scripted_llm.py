"""A model for summaries that says what it was told to, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.ports.llm import LlmRequest, LlmResponse


class MockLlmAdapter:
    """An `LlmAdapter` without a model.

    Args:
        answers: one a call, in order, an exception to raise it; when none is left, `summary 3` for
            the third call.

    Attributes:
        requests: what it was asked, oldest first.
    """

    def __init__(self, answers: Sequence[str | Exception] = ()) -> None:
        self.requests: list[LlmRequest] = []
        self._answers = list(answers)

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """The next answer."""
        self.requests.append(request)
        answer = self._answers.pop(0) if self._answers else f"summary {len(self.requests)}"
        if isinstance(answer, Exception):
            raise answer
        prompt_chars = sum(len(part.content) for part in request.messages)
        tokens = (prompt_chars // 4 + 1, len(answer) // 4 + 1)
        return LlmResponse(answer, "mock", *tokens, sum(tokens))
