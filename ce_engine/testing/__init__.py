"""Contract suites and scripted parts for those who implement a port of the engine."""

from __future__ import annotations

from ce_engine.testing.pruner_contract import PrunerContract
from ce_engine.testing.scripted_llm import MockLlmAdapter
from ce_engine.testing.store_contract import StoreContract
from ce_engine.testing.summarizer_contract import SummarizerContract


__all__ = ["MockLlmAdapter", "PrunerContract", "StoreContract", "SummarizerContract"]
