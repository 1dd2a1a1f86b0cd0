"""What a framework's model answered to a call of the engine's own."""

from __future__ import annotations

import time

from ce_engine import LlmResponse, Usage


__all__ = ["llm_response"]


def llm_response(content: str, model: str, usage: Usage | None, began: float) -> LlmResponse:
    """The answer, with the usage where one is known, and the time since `began` (`perf_counter`)."""
    usage = usage or Usage()
    return LlmResponse(
        content,
        model,
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        int((time.perf_counter() - began) * 1000),
    )
