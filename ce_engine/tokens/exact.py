"""The estimator that counts with the model's own vocabulary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ce_engine.schema.document import Message
from ce_engine.schema.enums import Role
from ce_engine.tokens.chars import CharBasedEstimator
from ce_engine.tokens.framing import PER_MESSAGE, PRIMING
from ce_engine.tokens.models import bare_name
from ce_engine.tokens.vocabulary import KNOWN, load_encoding


if TYPE_CHECKING:
    from tiktoken import Encoding

MARGIN = 1.2
"""For models whose vocabulary is not known here: theirs cut text into up to a fifth more tokens."""

PIECE_CHARS = 50_000
"""Longer texts are counted in pieces: the sum is never less, and the time stays linear."""


class TiktokenEstimator:
    """Counts with tiktoken; for a model that tiktoken does not know, with a margin of 20 %.

    Without any vocabulary on the machine it counts like `CharBasedEstimator`. Nothing is downloaded.
    """

    def __init__(self) -> None:
        self._chars = CharBasedEstimator()

    @property
    def name(self) -> str:
        return "tiktoken"

    @property
    def exact(self) -> bool:
        """Whether a vocabulary was found; for a model that has another one the margin is added."""
        return any(load_encoding(encoding) is not None for encoding in KNOWN)

    def describe(self, model_hint: str | None = None) -> str:
        """The vocabulary in words, for reports."""
        encoding, margin = _encoding(model_hint)
        if encoding is None:
            return self._chars.describe()
        if margin == 1.0:
            return f"tiktoken {encoding.name} (exact)"
        return f"tiktoken {encoding.name} + {round((margin - 1) * 100)} % (upper bound)"

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        encoding, margin = _encoding(model_hint)
        if encoding is None:
            return self._chars.estimate_text(text)
        if len(text) <= PIECE_CHARS:
            tokens = len(encoding.encode_ordinary(text))
        else:
            pieces = range(0, len(text), PIECE_CHARS)
            tokens = sum(len(encoding.encode_ordinary(text[i : i + PIECE_CHARS])) for i in pieces)
        return tokens if margin == 1.0 else math.ceil(tokens * margin)

    def estimate_message(
        self, role: Role | str, content: str, model_hint: str | None = None
    ) -> int:
        del role  # each is one token, in PER_MESSAGE
        return self.estimate_text(content, model_hint) + PER_MESSAGE

    def estimate_messages(self, messages: Sequence[Message], model_hint: str | None = None) -> int:
        each = (self.estimate_message(m.role, m.content, model_hint) for m in messages)
        return sum(each) + PRIMING


@lru_cache(maxsize=256)
def _encoding(model_hint: str | None) -> tuple[Encoding | None, float]:
    """The encoding to count with, and the margin to add."""
    wanted = _wanted(model_hint)
    if wanted is not None and (encoding := load_encoding(wanted)) is not None:
        return encoding, 1.0
    for name in KNOWN:
        if (encoding := load_encoding(name)) is not None:
            return encoding, MARGIN
    return None, 1.0


def _wanted(model_hint: str | None) -> str | None:
    """The encoding that tiktoken's tables give a model; `None` for models of others."""
    if not model_hint:
        return None
    from tiktoken.model import (  # noqa: PLC0415 - only where a model is named
        MODEL_PREFIX_TO_ENCODING,
        MODEL_TO_ENCODING,
    )

    name = bare_name(model_hint)
    if name in MODEL_TO_ENCODING:
        return MODEL_TO_ENCODING[name]
    fitting = [prefix for prefix in MODEL_PREFIX_TO_ENCODING if name.startswith(prefix)]
    found = MODEL_PREFIX_TO_ENCODING[max(fitting, key=len)] if fitting else None
    return "o200k_base" if found == "o200k_harmony" else found  # the same ranks


def default_estimator() -> TiktokenEstimator | CharBasedEstimator:
    """The best that the machine has: vocabularies are looked for once, here."""
    estimator = TiktokenEstimator()
    return estimator if estimator.exact else CharBasedEstimator()
