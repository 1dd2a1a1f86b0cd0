"""Governs every agent, team, model client and runtime of AutoGen that is made."""

from __future__ import annotations

from collections.abc import Callable

from making import install_on_all

from ce_engine import ContextEngine, RuntimeConfig
from ce_integrations.autogen.installer import ADAPTER


def govern(engine: ContextEngine, config: RuntimeConfig, _: Callable[[str], None]) -> None:
    """Install on each."""
    install_on_all(ADAPTER, ADAPTER.packages, engine, config)
