"""What chat models add around the texts of messages, shared by all estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ce_engine.schema.document import Message
from ce_engine.schema.enums import Role


PER_MESSAGE = 4
"""Framing of one message with its role, of OpenAI-like models; an upper bound.

They write three tokens around a message and one for its role, whichever of theirs it is.
"""

PRIMING = 3
"""What a model adds before its reply."""


class FramedEstimator(ABC):
    """Counts messages as their texts with framing; a subclass counts texts."""

    @abstractmethod
    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        """Tokens of a text without framing; 0 for the empty text."""

    def estimate_message(
        self, role: Role | str, content: str, model_hint: str | None = None
    ) -> int:
        """Tokens of one message with its framing."""
        del role  # each is one token, in PER_MESSAGE
        return self.estimate_text(content, model_hint) + PER_MESSAGE

    def estimate_messages(self, messages: Sequence[Message], model_hint: str | None = None) -> int:
        """Tokens of a list of messages with framing and the reply's priming."""
        counts = (self.estimate_message(m.role, m.content, model_hint) for m in messages)
        return sum(counts) + PRIMING
