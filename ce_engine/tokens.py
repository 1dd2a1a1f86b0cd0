"""Temporary stand-in while the estimators are being written."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.schema.document import Message


class CharBasedEstimator:
    name = "characters"
    exact = False

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        return len(text.encode("utf-8", "replace")) // 2

    def estimate_message(self, role: object, content: str, model_hint: str | None = None) -> int:
        return self.estimate_text(content) + 5

    def estimate_messages(self, messages: Sequence[Message], model_hint: str | None = None) -> int:
        return sum(self.estimate_message(m.role, m.content) for m in messages) + 3


TiktokenEstimator = CharBasedEstimator


def default_estimator() -> CharBasedEstimator:
    return CharBasedEstimator()


def context_window(model: str) -> int | None:
    return None


def image_tokens(
    width: int | None = None,
    height: int | None = None,
    detail: str = "auto",
    provider: str = "openai",
) -> int:
    return 765
