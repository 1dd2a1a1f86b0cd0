"""Contract suites and scripted parts for those who implement a port of the engine."""

from __future__ import annotations

from ce_engine.testing.pruner_contract import PrunerContract
from ce_engine.testing.store_contract import StoreContract


__all__ = ["PrunerContract", "StoreContract"]
