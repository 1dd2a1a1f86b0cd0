"""Governs every model of LangChain by one installation; nothing of the models is different."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.language_models import FakeListChatModel

from ce_engine import ContextEngine, RuntimeConfig
from ce_integrations.langchain import context_injection, install_ce
from ce_integrations.langchain.marks import mark_of


def govern(engine: ContextEngine, config: RuntimeConfig, _: Callable[[str], None]) -> None:
    """Give a model that nobody marked the mark of the one installation."""
    target = FakeListChatModel(responses=["never asked"])
    install_ce(target, engine=engine, config=config)
    mark = mark_of(target.callbacks)
    explicit = context_injection._mark_for

    def mark_for(model: Any, callbacks: Any) -> Any:
        return explicit(model, callbacks) or mark

    context_injection._mark_for = mark_for
