"""What one line brings in, and takes away again: who installs, with which options, and what is left."""

from __future__ import annotations

import atexit
import gc
import os
import re
import sqlite3
import subprocess
import sys
import threading
import weakref
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

import ce_integrations
from ce_engine import (
    BudgetConfig,
    ConfigError,
    MemoryStore,
    RuntimeConfig,
    StoreConfig,
    StoreUrlError,
    UnsupportedTargetError,
    create_context_engine,
)
from ce_engine.schema.ids import chain_keys
from ce_integrations.install import installation
from ce_integrations.langchain import install_ce


def a_model() -> FakeListChatModel:
    return FakeListChatModel(responses=["An answer."])


# What is left


def held() -> Counter[str]:
    """Objects of ours and callbacks, by their kind."""
    chain_keys.cache_clear()  # a few sessions' keys stay, whoever asked for them
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
    # One of each of the eight; what engines of other tests do meanwhile is less.
    assert {kind: n for kind, n in counts[1].items() if n - counts[0][kind] >= 8} == {}


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


# What can never work


def never(tmp_path: Path, url: str) -> str:
    (tmp_path / "folder").mkdir(exist_ok=True)
    (tmp_path / "a file").write_text("a letter")
    (tmp_path / "notes.db").write_text("给你的一封信，比十六个字节长得多。")
    return url.format(tmp_path)


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        ("mongodb://host/db", "Known here: memory://"),
        ("redis://me:{{}}@host/db", "after the host comes the number of a database"),
        ("postgresql://host", "names no database"),
        ("sqlite:///{}/folder", "is a folder. Name a file in it"),
        ("sqlite:///{}/a file", "is no SQLite database. It was left as it is. Name another file"),
        ("sqlite:///{}/notes.db", "is no SQLite database. It was left as it is. Name another file"),
        ("sqlite:///{}/no such folder/ce.db", "no such folder' does not exist. Create it"),
        ("sqlite:///{}/a file/ce.db", "a file' is no folder. Name another path"),
        ("file://{}/a file", "is a file. Name a folder"),
        ("file://{}/no such folder/sessions", "no such folder' does not exist. Create it"),
        ("file://{}/a file/sessions", "a file' is no folder. Name another path"),
    ],
)
def test_a_store_that_can_never_open_is_refused(tmp_path: Path, url: str, cure: str) -> None:
    model, url = a_model(), never(tmp_path, url)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreUrlError, match=re.escape(cure)):
        install_ce(model, store=url)
    if "://" in url and not url.startswith(("mongodb", "redis")):
        with pytest.raises(StoreUrlError, match=re.escape(cure)):
            install_ce(model, engine=create_context_engine(url))
    assert model.callbacks is None
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("missing", ["sqlite3", "sqlalchemy"])
def test_a_store_whose_driver_is_missing_is_refused(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from langchain_core.language_models import FakeListChatModel\n"
        "from ce_integrations.langchain import install_ce\n"
        "install_ce(FakeListChatModel(responses=['x']), store='sqlite:///ce.db')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ce_engine.errors.MissingDependencyError: sqlite:// stores need ")
    assert "such as file:sessions" in last


@pytest.mark.parametrize("store", ["memory://", "sqlite:///ce.db", "file:sessions"])
def test_a_secret_that_is_too_short_is_refused(
    store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    model = a_model()
    monkeypatch.setenv("CE_SECRET", "short")
    with pytest.raises(ConfigError, match=r"5 bytes; at least 16 .* Set CE_SECRET .*openssl rand"):
        install_ce(model, store=store)
    assert model.callbacks is None
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("CE_SECRET", "s" * 16)
    install_ce(model, store=store).uninstall()


@pytest.mark.production_guard
def test_a_store_that_is_away_now_is_installed_and_its_line_names_it_the_cause_and_the_cure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, model = tmp_path / "ce.db", a_model()
    config = RuntimeConfig(store=StoreConfig(deadline_s=20, breaker_s=60))
    with install_ce(model, store=f"sqlite:///{path}", config=config) as first:
        model.invoke("这是谁的秘密 sk-live-1")
        first.engine.sync.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
        other.execute("BEGIN EXCLUSIVE")
        with install_ce(model, store=f"sqlite:///{path}", config=config) as installation:
            for _ in range(3):
                assert model.invoke("谁在那里 zhang.wei@example.com").content == "An answer."
            other.execute("ROLLBACK")
            lines = [r.getMessage() for r in caplog.records if r.name == "ce_engine.store"]
            installation.hooks.engine.loop.close()
    assert len(lines) == 1
    for word in (f"sqlite:///{path}", "is locked by another connection", "ce doctor"):
        assert word in lines[0]
    assert "example.com" not in caplog.text


@pytest.mark.production_guard
def test_a_callable_that_gives_no_id_is_told_with_the_cure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = a_model()
    wrong: Any = ["zhang.wei@example.com"]
    with install_ce(model, store="memory://", session_id=lambda _: wrong) as installation:
        assert model.invoke("你好").content == "An answer."
        assert {fault.kind for fault in installation.faults} == {"ConfigError"}
    assert "session_id of the callable of install_ce is a list; expected a text" in caplog.text
    assert "example.com" not in caplog.text


def test_variables_that_mean_nothing_are_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    installation._tell_of_variables.cache_clear()
    monkeypatch.setenv("CE_STORE", "sqlite:///secret-place.db")
    monkeypatch.setenv("CE_QQ", "1")
    for _ in range(2):
        install_ce(a_model(), store="memory://").uninstall()
    told = [record.getMessage() for record in caplog.records if "variable" in record.msg]
    installation._tell_of_variables.cache_clear()
    assert len(told) == 2
    assert "CE_QQ means nothing here; known are CE_STORE_URL, CE_ORIGINALS_URL" in told[0]
    assert "CE_STORE means nothing here; did you mean CE_STORE_URL?" in told[1]
    assert "secret-place" not in caplog.text


@pytest.mark.parametrize("several", [list, tuple, set])
@pytest.mark.parametrize("install", [install_ce, ce_integrations.install_ce])
def test_of_several_targets_each_is_to_be_installed_on(install: Any, several: Any) -> None:
    targets = several(("a", "b"))
    with pytest.raises(UnsupportedTargetError, match=r"of 2\. Install on each"):
        install(targets)
