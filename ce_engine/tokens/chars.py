"""The estimator for machines without a vocabulary: an upper bound by kinds of characters (A-08)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

from ce_engine.schema.document import Message
from ce_engine.schema.enums import Role


PER_MESSAGE = 4
"""Framing of one message with its role, of OpenAI-like models; an upper bound."""

PRIMING = 3
"""What a model adds before its reply."""

_KINDS = re.compile(
    r"([A-Za-z]+)"  # 1 letters
    r"|( )(?=[^\s0-9])"  # 2 a space before a word: it costs nothing of its own
    r"|([!-/:-@\[-`{-~\x00-\x08\x7f])"  # 3 a sign
    r"|([0-9]+)"  # 4 digits
    r"|(\s+)"  # 5 other white space
    r"|([\u3400-\u4dbf\u4e00-\u9fff]+)"  # 6 Han
    r"|([\u3000-\u30ff\uac00-\ud7af\uff00-\uffef]+)"  # 7 kana, Hangul, full-width signs
    r"|([\u00a0-\u02ff\u0370-\u058f\u2010-\u203f]+)"  # 8 accented Latin, Greek, Cyrillic, quotes
    r"|([\u0590-\u06ff\u0e00-\u0eff]+)"  # 9 Hebrew, Arabic, Thai, Lao
    r"|(.)",  # 10 anything else, about as its UTF-8 bytes
    re.DOTALL,
)
_PER_CHAR = {4: 0.5, 6: 1.6, 7: 1.35, 8: 0.75, 9: 1.2}
_OTHER = 4.2
_HUMP = re.compile(r"[a-z][A-Z]|[A-Z][a-z]")
_HARSH = re.compile(r"[bcdfghjklmnpqrstvwxzBCDFGHJKLMNPQRSTVWXZ]{4,}")


class CharBasedEstimator:
    """Counts by kinds of characters, calibrated against cl100k_base and o200k_base.

    An upper bound on code, JSON, hex, emoji and CJK; on prose at most 1.6 times the true count.
    """

    @property
    def name(self) -> str:
        return "characters"

    @property
    def exact(self) -> bool:
        return False

    def describe(self, model_hint: str | None = None) -> str:
        """What is counted, in words, for reports."""
        del model_hint
        return "characters (upper bound; no vocabulary found)"

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        del model_hint
        if not text:
            return 0
        return math.ceil(_count(text))

    def estimate_message(
        self, role: Role | str, content: str, model_hint: str | None = None
    ) -> int:
        del role  # each is one token, in PER_MESSAGE
        return self.estimate_text(content, model_hint) + PER_MESSAGE

    def estimate_messages(self, messages: Sequence[Message], model_hint: str | None = None) -> int:
        each = (self.estimate_message(m.role, m.content, model_hint) for m in messages)
        return sum(each) + PRIMING


def _count(text: str) -> float:
    total = 0.0
    for match in _KINDS.finditer(text):
        kind = match.lastindex
        if kind == 1:
            total += _word(match.group())
        elif kind == 3:
            total += 1.0
        elif kind in _PER_CHAR:
            total += 0.5 + (match.end() - match.start()) * _PER_CHAR[kind]
        elif kind == 5:
            total += 1.0 + (match.end() - match.start()) / 16
        elif kind != 2:
            total += _OTHER
    return total


@lru_cache(maxsize=20_000)
def _word(run: str) -> float:
    """Words of prose are one token, or a few; what no language writes is cut up finely."""
    size = len(run)
    if size > 24:  # words end: this is data
        return size * 0.8
    cost = 1.0 + max(0, size - 5) * 0.22
    if size > 2 and not (run.islower() or run[1:].islower()):
        humps = len(_HUMP.findall(run))
        cost = max(cost, size * (0.8 if humps * 4 > size or run.isupper() else 0.35))
    if size > 5:
        cost += sum(len(found) for found in _HARSH.findall(run)) * 0.6
    return cost
