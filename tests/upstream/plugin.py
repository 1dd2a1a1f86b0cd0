"""A pytest plugin for LangChain's own tests: every model call goes through the adapter, in an engine with much room."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from langchain_core.language_models import FakeListChatModel

from ce_engine import (
    BudgetConfig,
    MemoryStore,
    RuntimeConfig,
    create_context_engine,
)
from ce_integrations.langchain import injection, install_ce
from ce_integrations.langchain.marks import mark_of


ROOM = 10_000_000

_target = FakeListChatModel(responses=["never asked"])
_engine = create_context_engine(MemoryStore())
_installation = install_ce(
    _target, engine=_engine, config=RuntimeConfig(budget=BudgetConfig(max_input_tokens=ROOM))
)
_counts = {"prepared": 0, "changed": 0}


def _mark_for_all() -> None:
    """Give a model that nobody marked the mark of the one installation; nothing else is different."""
    mark = mark_of(_target.callbacks)
    explicit = injection._mark_for

    def mark_for(model: Any, callbacks: Any) -> Any:
        return explicit(model, callbacks) or mark

    injection._mark_for = mark_for


def _count_all() -> None:
    ready = _installation.hooks._ready

    def counted(natives: list[Any], *told: Any) -> Any:
        goes, turn = ready(natives, *told)
        _counts["prepared"] += 1
        _counts["changed"] += goes is not natives
        return goes, turn

    vars(_installation.hooks)["_ready"] = counted


_mark_for_all()
_count_all()


def pytest_sessionfinish() -> None:
    """Leave how many calls were prepared, and how many inputs were changed, for who asked."""
    _engine.sync.close()
    with Path(os.environ["CE_UPSTREAM_COUNTS"]).open("a", encoding="utf-8") as file:
        file.write(f"{_counts['prepared']} {_counts['changed']}\n")
