"""What one line brings in, and takes away again: who installs, with which options, and what is left."""

from __future__ import annotations

import atexit
import gc
import os
import threading
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

from ce_engine import (
    BudgetConfig,
    ConfigError,
    MemoryStore,
    RuntimeConfig,
    create_context_engine,
)
from ce_integrations.langchain import install_ce


def a_model() -> FakeListChatModel:
    return FakeListChatModel(responses=["An answer."])


# What is left


def held() -> Counter[str]:
    """Objects of ours and callbacks, by their kind."""
    for _ in range(3):  # what a finalizer held goes after it
        gc.collect()
    kinds = [(str(type(each).__module__), type(each).__name__) for each in gc.get_objects()]
    found = Counter(
        f"{module}.{name}"
        for module, name in kinds
        if module.startswith("ce_") or name == "WeakMethod"
    )
    found["callbacks at exit"] = atexit._ncallbacks()
    found["finalizers"] = len(weakref.finalize._registry)  # type: ignore[attr-defined]  # no other way to see them
    found["threads"] = threading.active_count()
    return found


@pytest.mark.parametrize("store", ["memory://", "sqlite:///{}/ce.db", "file://{}/sessions"])
def test_an_installation_that_is_gone_leaves_nothing(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[object] = []
    counts = []
    for n in range(12):
        model = a_model()
        installation = install_ce(model, store=store.format(tmp_path))
        model.invoke("你好")
        installation.uninstall()
        del model, installation
        if n == 3:  # what is made once is made
            monkeypatch.setattr(os, "register_at_fork", lambda **each: registered.append(each))
            counts.append(held())
    counts.append(held())
    assert registered == []
    assert {kind: n for kind, n in counts[1].items() if n > counts[0][kind]} == {}


# The budget


def sent_with(**options: Any) -> int:
    """Tokens that the budget leaves for what goes out, as the report of a call has it."""
    model = a_model()
    with install_ce(model, session_id="s", **{"store": "memory://", **options}) as installation:
        model.invoke("你好")
        report = installation.last_report("s")
        installation.engine.sync.close()
    assert report is not None
    assert report.token_budget is not None
    return report.token_budget


WINDOW = BudgetConfig(max_input_tokens=4000, reserved_reply_tokens=500)


def test_a_budget_is_a_number_of_tokens_with_the_reply_in_it() -> None:
    assert sent_with(budget=4000) == 3000
    assert sent_with(budget=WINDOW) == 3500
    assert sent_with(config=RuntimeConfig(budget=WINDOW), budget=4000) == 3500
    shares = BudgetConfig(minima={}, reserved_reply_tokens=100)
    assert sent_with(config=RuntimeConfig(budget=shares), budget=4000) == 3900


def test_a_budget_is_of_the_calls_of_its_installation() -> None:
    engine = create_context_engine(
        MemoryStore(), config=RuntimeConfig(budget=WINDOW, placement="cache")
    )
    wide, narrow = a_model(), a_model()
    with (
        install_ce(wide, engine=engine, session_id="wide") as first,
        install_ce(narrow, engine=engine, session_id="narrow", budget=2000) as second,
    ):
        wide.invoke("q")
        narrow.invoke("q")
        reports = first.last_report("wide"), second.last_report("narrow")
    engine.sync.close()
    assert [report.token_budget for report in reports if report] == [3500, 1500]


def test_budgets_that_contradict_each_other_are_refused() -> None:
    model, config = a_model(), RuntimeConfig(budget=WINDOW)
    with pytest.raises(ConfigError, match=r"5000 tokens, and config has .*\(4000\)"):
        install_ce(model, store="memory://", config=config, budget=5000)
    for wrong in ("4000", 4e3, True, 0, -1):
        with pytest.raises(ConfigError, match=r"budget|max_input_tokens"):
            install_ce(model, store="memory://", budget=wrong)  # type: ignore[arg-type]  # what it is about
    with install_ce(model, store="memory://", config=config):
        with install_ce(model, budget=WINDOW) as again:
            assert again.engine.config.budget == WINDOW
        with pytest.raises(ConfigError, match="another budget"):
            install_ce(model, budget=5000)
