"""A view or trigger that never ends, in the file of a store: calls go on, closing ends, commands name it (B-01, 19 A)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import (
    ContextEngine,
    RuntimeConfig,
    Scope,
    StoreConfig,
    StoreUnavailableError,
    create_context_engine,
)
from ce_engine.stores.tables import sqlite, store
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import ce
from tests.unit.audit.forged_store import PATIENT


ENDLESS = "(WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r)"
TRIGGER = (
    f"CREATE TRIGGER mallory AFTER INSERT ON ce_messages BEGIN SELECT count(*) FROM {ENDLESS}; END"
)
SCOPE, OTHER = Scope(session_id="s", user_id="u"), Scope(session_id="t", user_id="v")


def view_of(table: str) -> list[str]:
    return [
        f"ALTER TABLE {table} RENAME TO kept",
        f"CREATE VIEW {table} AS SELECT kept.* FROM kept, {ENDLESS}",
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "ce.db"
    engine = opened(made)
    for scope in (SCOPE, OTHER):
        HostApp(engine, scope).ask("你好", "hello")
    engine.sync.close()
    return made


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who tests need not wait as long as an app does."""
    monkeypatch.setattr(store, "_LAST_WORDS_S", 0.2)


def opened(path: Path) -> ContextEngine:
    return create_context_engine(f"sqlite:///{path}", config=PATIENT)


def change(path: Path, statements: list[str]) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


@pytest.mark.req("B-01", "B-03")
@pytest.mark.parametrize("table", ["ce_messages", "ce_settings", "ce_sessions", "ce_revision"])
def test_a_view_in_the_place_of_a_table_is_named_before_it_is_read(table: str, path: Path) -> None:
    change(path, view_of(table))
    engine = opened(path)
    with pytest.raises(StoreUnavailableError, match=f"{table} is a view"):
        engine.sync.verify(SCOPE)
    prepared = HostApp(engine, SCOPE).ask("Go on?", "Yes.")
    assert prepared.report.degradations == [StoreUnavailableError.code]
    engine.sync.close(timeout_s=0.2)
    commands = ["verify"], ["sessions"], ["show", "s"], ["metrics"], ["doctor"]
    for command in commands if table == "ce_sessions" else commands[:1]:
        done = ce(*command, "--store", f"sqlite:///{path}")
        assert done.exit_code == 1, command
        assert f"{table} is a view" in " ".join(done.output.split()), command


@pytest.mark.req("B-01")
def test_a_backup_with_one_is_not_restored(path: Path, tmp_path: Path) -> None:
    change(path, view_of("ce_sessions"))
    target = tmp_path / "restored.db"
    done = ce("restore", str(path), "--store", f"sqlite:///{target}")
    assert done.exit_code == 1
    assert "ce_sessions is a view" in " ".join(done.output.split())
    assert not target.exists()


@pytest.mark.req("B-01")
def test_a_trigger_without_end_keeps_nobody_from_closing(path: Path) -> None:
    change(path, [TRIGGER])
    soon = RuntimeConfig(store=StoreConfig(deadline_s=0.2))
    engine = create_context_engine(f"sqlite:///{path}", config=soon)
    prepared = HostApp(engine, SCOPE).ask("Go on?", "Yes.")
    assert prepared.plan is not None
    engine.sync.close(timeout_s=0.2)
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT count(*) FROM ce_messages").fetchone()
    assert found == (4,)


@pytest.mark.req("B-01")
def test_a_transaction_without_end_is_ended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was looked at when the file was opened may be another thing now."""
    monkeypatch.setattr(sqlite, "MOST_TICKS", 2)
    monkeypatch.setattr(store, "_READERS", 1)  # who read before reads again
    engine = opened(path)
    assert engine.sync.get_session(SCOPE) is not None
    change(path, view_of("ce_messages"))
    with pytest.raises(StoreUnavailableError, match="took too long"):
        engine.sync.get_session(SCOPE)
    with pytest.raises(StoreUnavailableError, match="is a view"):
        engine.sync.get_session(SCOPE)
    engine.sync.close()


def test_a_view_of_its_own_name_is_told_as_before(path: Path) -> None:
    change(path, ["CREATE VIEW mine AS SELECT * FROM ce_messages"])
    engine = opened(path)
    assert HostApp(engine, SCOPE).ask("Go on?", "Yes.").report.degradations == []
    assert engine.sync.verify(SCOPE).status == "tampered"
    engine.sync.close()
