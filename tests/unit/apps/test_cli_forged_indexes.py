"""Rows that are right, found by an index that is forged: `ce verify` reads the indexes, and `ce backup` carries none over."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import RuntimeConfig, Scope, StoreConfig, create_context_engine
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import ce, url_of


SCOPE = Scope(session_id="s", user_id="ada")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a session of two turns and a rule of its owner."""
    path = tmp_path / "ce.db"
    patient = RuntimeConfig(store=StoreConfig(deadline_s=30))
    engine = create_context_engine(url_of(path), config=patient)
    engine.sync.constraints.create(SCOPE, "Never tell the gate code.")
    app = HostApp(engine, SCOPE)
    for n in range(2):
        app.ask(f"Question {n}?", f"Answer {n}.")
    engine.sync.close()
    return path


def forge(path: Path, table: str, columns: str, change: str, back: str) -> None:
    """Give the last index of a table's constraints the entries that it has after `change`, and take that `back`."""

    def schema() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA writable_schema = ON")
        return connection

    def master(connection: sqlite3.Connection, name: str) -> tuple[object, ...]:
        found = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master WHERE name = ?"
        row: tuple[object, ...] = connection.execute(found, (name,)).fetchone()
        return row

    def begin_anew(connection: sqlite3.Connection) -> sqlite3.Connection:
        (version,) = connection.execute("PRAGMA schema_version").fetchone()
        connection.execute(f"PRAGMA schema_version = {version + 1}")
        connection.close()
        return schema()

    connection = schema()
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE tbl_name = ? AND name GLOB 'sqlite_auto*' ORDER BY name",
        (table,),
    ).fetchall()
    own = names[-1][0]
    connection.execute(change)
    connection.execute(f"CREATE UNIQUE INDEX other ON {table}({columns})")
    other, index = master(connection, "other"), master(connection, own)
    connection.execute("DELETE FROM sqlite_master WHERE name = 'other'")
    connection = begin_anew(connection)
    connection.execute(back)
    connection.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = ?", (other[3], own))
    values = (*other[:3], index[3], other[4])
    connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", values)
    connection = begin_anew(connection)
    connection.execute("DROP INDEX other")
    connection.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]


def hide_the_rule(path: Path) -> None:
    """The index by which a call looks up rules leads nowhere; the row is as it was."""
    forge(
        path,
        "ce_settings",
        "account_id, user_id, project_id, name",
        "UPDATE ce_settings SET name = 'zz' WHERE name = 'constraints'",
        "UPDATE ce_settings SET name = 'constraints' WHERE name = 'zz'",
    )


@pytest.mark.req("B-01")
def test_a_rule_that_its_index_hides_is_told(path: Path) -> None:
    at = ("--store", url_of(path))
    assert ce("verify", *at).exit_code == 0
    hide_the_rule(path)
    engine = create_context_engine(url_of(path))
    assert engine.sync.constraints.list(SCOPE) == [], "it is in no prompt"
    engine.sync.close()
    for command in (("verify",), ("verify", "s", "--user", "ada")):
        done = ce(*command, *at, columns=400)
        assert done.exit_code == 1
        assert "the file's indexes and tables do not fit together" in done.stdout
        assert "intact" not in done.stdout
    told = json.loads(ce("verify", "--json", *at).stdout)
    assert [session["status"] for session in told["sessions"]] == ["tampered"]
    assert [setting["status"] for setting in told["settings"]] == ["tampered"]
    [problem] = told["damaged"]
    assert "REINDEX" in problem


@pytest.mark.req("B-01")
def test_no_backup_is_made_of_it(path: Path, tmp_path: Path) -> None:
    hide_the_rule(path)
    done = ce("backup", str(tmp_path / "b.ce"), "--store", url_of(path), columns=400)
    assert done.exit_code != 0
    assert "is damaged" in done.output
    assert not (tmp_path / "b.ce").exists()


@pytest.mark.req("B-01")
def test_with_its_indexes_made_anew_it_is_intact(path: Path) -> None:
    hide_the_rule(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("REINDEX")
    assert ce("verify", "--store", url_of(path)).exit_code == 0
