"""Contract suites and scripted parts for those who implement a port of the engine."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from ce_engine.testing.base_contracts import (
        ClockContract,
        EventBusContract,
        HasherContract,
        IdGeneratorContract,
    )
    from ce_engine.testing.block_contracts import (
        AssemblerContract,
        BlockDeriverContract,
        ContextSourceContract,
        EvidenceIngestorContract,
        RendererContract,
    )
    from ce_engine.testing.embedder_contract import EmbedderContract
    from ce_engine.testing.evidence_contracts import EvidenceResolverContract, RefSelectorContract
    from ce_engine.testing.ids_in_order import IdsInOrder
    from ce_engine.testing.judge_contract import JudgeContract
    from ce_engine.testing.llm_contract import LlmAdapterContract
    from ce_engine.testing.pruner_contract import PrunerContract
    from ce_engine.testing.scripted_llm import MockLlmAdapter
    from ce_engine.testing.store_contract import StoreContract
    from ce_engine.testing.summarizer_contract import SummarizerContract
    from ce_engine.testing.text_contracts import RedactorContract, TokenEstimatorContract

__all__ = [
    "AssemblerContract",
    "BlockDeriverContract",
    "ClockContract",
    "ContextSourceContract",
    "EmbedderContract",
    "EventBusContract",
    "EvidenceIngestorContract",
    "EvidenceResolverContract",
    "HasherContract",
    "IdGeneratorContract",
    "IdsInOrder",
    "JudgeContract",
    "LlmAdapterContract",
    "MockLlmAdapter",
    "PrunerContract",
    "RedactorContract",
    "RefSelectorContract",
    "RendererContract",
    "StoreContract",
    "SummarizerContract",
    "TokenEstimatorContract",
]

_HOMES = {
    "AssemblerContract": "block_contracts",
    "BlockDeriverContract": "block_contracts",
    "ClockContract": "base_contracts",
    "ContextSourceContract": "block_contracts",
    "EmbedderContract": "embedder_contract",
    "EventBusContract": "base_contracts",
    "EvidenceIngestorContract": "block_contracts",
    "EvidenceResolverContract": "evidence_contracts",
    "HasherContract": "base_contracts",
    "IdGeneratorContract": "base_contracts",
    "IdsInOrder": "ids_in_order",
    "JudgeContract": "judge_contract",
    "LlmAdapterContract": "llm_contract",
    "MockLlmAdapter": "scripted_llm",
    "PrunerContract": "pruner_contract",
    "RedactorContract": "text_contracts",
    "RefSelectorContract": "evidence_contracts",
    "RendererContract": "block_contracts",
    "StoreContract": "store_contract",
    "SummarizerContract": "summarizer_contract",
    "TokenEstimatorContract": "text_contracts",
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
