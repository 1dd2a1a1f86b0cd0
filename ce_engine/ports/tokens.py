"""The interface of what counts tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ce_engine.schema.document import Message
from ce_engine.schema.enums import Role


class TokenEstimator(Protocol):
    """Counts tokens; synchronous and pure, never over the network (A-08).

    `exact_for` a model says whether the count is its own; else it is an upper bound.
    """

    @property
    def name(self) -> str: ...

    def exact_for(self, model_hint: str | None = None) -> bool: ...

    def describe(self, model_hint: str | None = None) -> str:
        """How it counts for a model, in words, for reports."""
        ...

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        """Tokens of a text without framing; 0 for the empty text."""
        ...

    def estimate_message(
        self, role: Role | str, content: str, model_hint: str | None = None
    ) -> int:
        """Tokens of one message with its framing."""
        ...

    def estimate_messages(self, messages: Sequence[Message], model_hint: str | None = None) -> int:
        """Tokens of a list of messages with framing and the reply's priming."""
        ...
