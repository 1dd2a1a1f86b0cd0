"""How many tokens a text costs: exact where the model's vocabulary is on the machine, else an upper bound."""

from __future__ import annotations

from ce_engine.text.tokens.calibration import Calibration
from ce_engine.text.tokens.chars import CharBasedEstimator
from ce_engine.text.tokens.exact import TiktokenEstimator, default_estimator
from ce_engine.text.tokens.media import attachment_tokens, image_tokens
from ce_engine.text.tokens.models import context_window
from ce_engine.text.tokens.vocabulary import (
    available_encodings,
    fetch_vocabulary,
    find_vocabulary,
)


__all__ = [
    "Calibration",
    "CharBasedEstimator",
    "TiktokenEstimator",
    "attachment_tokens",
    "available_encodings",
    "context_window",
    "default_estimator",
    "fetch_vocabulary",
    "find_vocabulary",
    "image_tokens",
]
