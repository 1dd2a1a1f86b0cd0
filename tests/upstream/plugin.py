"""A pytest plugin for LangChain's own tests: every model call goes through the adapter, in an engine with much room."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
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
_notes: list[str] = []


def _mark_for_all() -> None:
    """Give a model that nobody marked the mark of the one installation; nothing else is different."""
    mark = mark_of(_target.callbacks)
    explicit = injection._mark_for

    def mark_for(model: Any, callbacks: Any) -> Any:
        return explicit(model, callbacks) or mark

    injection._mark_for = mark_for


def _note_all() -> None:
    ready = _installation.hooks._ready

    def noted(natives: list[Any], *told: Any) -> Any:
        goes, turn = ready(natives, *told)
        kind = "kept" if goes is natives else "changed"
        _notes.append(f"{kind} {os.environ.get('PYTEST_CURRENT_TEST')}")
        return goes, turn

    vars(_installation.hooks)["_ready"] = noted


_mark_for_all()
_note_all()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Note the faults of ours that the guard kept from the test."""
    faults = _installation.hooks.guard.faults
    while faults:
        _notes.append(f"{faults.popleft().kind} {item.nodeid}")


def pytest_sessionfinish() -> None:
    """Leave a line for each input and each fault, for who asked."""
    _engine.sync.close()
    with Path(os.environ["CE_UPSTREAM_NOTES"]).open("a", encoding="utf-8") as file:
        file.writelines(f"{note}\n" for note in _notes)
