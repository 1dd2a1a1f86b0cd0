"""Contract suites and scripted parts for those who implement a port of the engine."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from ce_engine.testing.judge_contract import JudgeContract
    from ce_engine.testing.pruner_contract import PrunerContract
    from ce_engine.testing.scripted_llm import MockLlmAdapter
    from ce_engine.testing.store_contract import StoreContract
    from ce_engine.testing.summarizer_contract import SummarizerContract

__all__ = [
    "JudgeContract",
    "MockLlmAdapter",
    "PrunerContract",
    "StoreContract",
    "SummarizerContract",
]

_HOMES = {
    "JudgeContract": "judge_contract",
    "MockLlmAdapter": "scripted_llm",
    "PrunerContract": "pruner_contract",
    "StoreContract": "store_contract",
    "SummarizerContract": "summarizer_contract",
}

if "pytest" in sys.modules:  # so that a test that fails shows what it compared
    sys.modules["pytest"].register_assert_rewrite(
        *(f"{__name__}.{module.name}" for module in iter_modules(__path__))
    )


def __getattr__(name: str) -> object:
    """Load what is asked for: who needs one suite needs neither the others nor their marks."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
