"""Governs every model, agent and engine of LlamaIndex that is made, and hears every span."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llama_index.core.llms import MockLLM
from making import install_on_all

from ce_engine import ContextEngine, RuntimeConfig
from ce_integrations.llamaindex import recorder
from ce_integrations.llamaindex.installer import ADAPTER
from ce_integrations.llamaindex.marked_parts import PACKAGES
from ce_integrations.llamaindex.spans import mark_of


def govern(engine: ContextEngine, config: RuntimeConfig, note: Callable[[str], None]) -> None:
    """Install on each, and hear the spans of all else as one installation's; note each span."""
    install_on_all(ADAPTER, PACKAGES, engine, config)
    mark = mark_of(MockLLM())
    spans = cast("Any", recorder)
    explicit, entered = spans.owner_of, spans._entered

    def owner_of(instance: object) -> Any:
        return explicit(instance) or mark

    def heard(*told: Any) -> None:
        entered(*told)
        note("heard")

    spans.owner_of, spans._entered = owner_of, heard
