"""A pytest plugin for a framework's own tests: what they make goes through the adapter, in an engine with much room."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from ce_engine import BudgetConfig, MemoryStore, RuntimeConfig, create_context_engine
from ce_integrations.calls.hooks import Hooks
from ce_integrations.wrapping.guard import Guard


ROOM = 10_000_000

_engine = create_context_engine(MemoryStore())
_config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=ROOM))
_notes: list[str] = []


def note(kind: str) -> None:
    _notes.append(f"{kind} {os.environ.get('PYTEST_CURRENT_TEST', '')}")


def _note_all() -> None:
    """Note each input, and each fault of ours that the guard keeps from a test."""
    hooks_class, guard_class = cast("Any", Hooks), cast("Any", Guard)  # of all installations
    ready, swallows = hooks_class._ready, guard_class.swallows

    def noted(hooks: Any, natives: list[Any], *told: Any) -> Any:
        goes, turn = ready(hooks, natives, *told)
        note("kept" if goes is natives else "changed")
        return goes, turn

    def kept_from(guard: Guard, error: BaseException, where: str) -> Any:
        if isinstance(error, Exception):
            note(type(error).__name__)
        return swallows(guard, error, where)

    hooks_class._ready, guard_class.swallows = noted, kept_from


_note_all()
import_module(f"govern_{os.environ['CE_UPSTREAM_FRAMEWORK']}").govern(_engine, _config, note)


def pytest_sessionfinish() -> None:
    """Leave a line for each note, for who asked."""
    _engine.sync.close()
    with Path(os.environ["CE_UPSTREAM_NOTES"]).open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in _notes)
