"""The interface of the engine's own model calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ce_engine.schema.report import MessagePart


@dataclass(slots=True)
class LlmRequest:
    """A call of the engine's own."""

    messages: Sequence[MessagePart]
    model: str | None = None
    max_tokens: int | None = None
    temperature: float = 0.3


@dataclass(slots=True)
class LlmResponse:
    """What it answered."""

    content: str
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    latency_ms: int = 0


class LlmAdapter(Protocol):
    """The engine's own model calls (summaries); never the host's."""

    async def generate(self, request: LlmRequest) -> LlmResponse: ...
