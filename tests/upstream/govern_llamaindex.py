"""Makes every span of LlamaIndex one of ours, by one installation, and governs every model that tests make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.llms import MockLLM

from ce_engine import ContextEngine, RuntimeConfig
from ce_integrations.llamaindex import install_ce, recorder
from ce_integrations.llamaindex.spans import mark_of


def govern(engine: ContextEngine, config: RuntimeConfig, note: Callable[[str], None]) -> None:
    """Hear spans as if what they are of had the mark of the one installation; note each."""
    target = MockLLM()
    install_ce(target, engine=engine, config=config)
    mark = mark_of(target)
    explicit, entered = recorder.owner_of, recorder._entered

    def owner_of(instance: object) -> Any:
        return explicit(instance) or mark

    def heard(*told: Any) -> None:
        entered(*told)
        note("heard")

    recorder.owner_of = owner_of
    recorder._entered = heard
