"""The estimator that counts with the model's own vocabulary."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from ce_engine.schema.time_limits import breathe
from ce_engine.text.tokens.chars import CharBasedEstimator
from ce_engine.text.tokens.framing import FramedEstimator
from ce_engine.text.tokens.models import bare_name
from ce_engine.text.tokens.vocabulary import KNOWN, load_encoding


if TYPE_CHECKING:
    from tiktoken import Encoding

MARGIN = 1.2
"""For models whose vocabulary is not known here: theirs cut text into up to a fifth more tokens."""

PIECE_CHARS = 50_000
"""Longer texts are counted in pieces, so that time and memory stay linear."""

_SEAM_CHARS = 5_000
"""How far back from its end a piece may be cut."""

_SEAM = re.compile(r"(?<=[^\W\d_]) (?=[^\W\d_])")
"""A space between two letters: it opens the next word, so a cut before it changes no count."""


class TiktokenEstimator(FramedEstimator):
    """Counts with tiktoken; for a model that tiktoken does not know, with a margin of 20 %.

    Such a model may be an older one under a name of somebody's own (a deployment's), and older
    vocabularies cut Chinese, for one, into two fifths more tokens: outside ASCII it is no less than theirs.

    Where the vocabulary that a model needs is not on the machine, it counts with one that is no
    worse, and without any like `CharBasedEstimator`. Nothing is downloaded.
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

    def exact_for(self, model_hint: str | None = None) -> bool:
        """Whether the model's own vocabulary is on the machine."""
        encoding, margin = _encoding(model_hint)
        return encoding is not None and margin == 1.0

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
        tokens = _count(encoding, text)
        if margin == 1.0:
            return tokens
        bound = math.ceil(tokens * margin)
        return bound if text.isascii() else max(bound, self._by_older(encoding, text))

    def _by_older(self, encoding: Encoding, text: str) -> int:
        if encoding.name == KNOWN[-1]:
            return 0
        older = load_encoding(KNOWN[-1])
        return self._chars.estimate_text(text) if older is None else _count(older, text)


def _count(encoding: Encoding, text: str) -> int:
    """Tokens of a text; of one that has to be cut inside a word, at least as many."""
    if len(text) <= PIECE_CHARS:
        return len(encoding.encode_ordinary(text))
    return sum(len(encoding.encode_ordinary(piece)) + seam for piece, seam in _pieces(text))


def _pieces(text: str) -> Iterator[tuple[str, int]]:
    """Cut a long text where no count changes; elsewhere with one token for what the cut may hide."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        breathe()
        limit = start + PIECE_CHARS
        seam = _SEAM.search(text, limit - _SEAM_CHARS, limit)
        end = seam.start() if seam else limit
        yield text[start:end], 0 if seam else 1
        start = end
    yield text[start:], 0


def _encoding(model_hint: str | None) -> tuple[Encoding | None, float]:
    """The encoding to count with, and the margin to add."""
    encoding_name = _encoding_name(model_hint)
    if encoding_name is not None and (encoding := load_encoding(encoding_name)) is not None:
        return encoding, 1.0
    if encoding_name in {None, *KNOWN[:1]}:
        for name in KNOWN:
            if (encoding := load_encoding(name)) is not None:
                return encoding, MARGIN
    # An older vocabulary than what is here cuts CJK far finer than the margin: characters bound it.
    return None, 1.0


@lru_cache(maxsize=256)
def _encoding_name(model_hint: str | None) -> str | None:
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
    encoding_name = MODEL_PREFIX_TO_ENCODING[max(fitting, key=len)] if fitting else None
    return "o200k_base" if encoding_name == "o200k_harmony" else encoding_name  # the same ranks


def default_estimator() -> TiktokenEstimator | CharBasedEstimator:
    """The best that the machine has: vocabularies are looked for once, here."""
    estimator = TiktokenEstimator()
    return estimator if estimator.exact else CharBasedEstimator()
