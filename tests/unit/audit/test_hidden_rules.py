"""A rule in an SQLite file's schema, however it is spelled, is named, and nothing that it leaves out is acknowledged (B-01)."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import (
    FileDamagedError,
    RuntimeConfig,
    Scope,
    StoreConfig,
    StoreUnavailableError,
    create_context_engine,
)
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import ce, url_of


SCOPE = Scope(session_id="s", user_id="ada")
QUESTION, ANSWER = "Pay the zebra invoice?", "It is paid."
IGNORE = "SELECT raise(ignore); END"
WHEN = "WHEN CAST(new.{} AS text) LIKE '%zebra%' BEGIN"


def trigger(table: str, column: str) -> str:
    return f"CREATE TRIGGER t BEFORE INSERT ON {table} {WHEN.format(column)} {IGNORE}"


def typed(letters: str) -> str:
    return f"UPDATE sqlite_master SET type = '{letters}' WHERE name = 't'"


def replaced(table: str, old: str, new: str) -> str:
    new = new.replace("'", "''")
    return f"UPDATE sqlite_master SET sql = replace(sql, '{old}', '{new}') WHERE name = '{table}'"


def generated(table: str, column: str) -> str:
    case = f"CASE WHEN {column} LIKE '%zebra%' THEN NULL ELSE 1 END"
    definition = f"x_ INTEGER AS/**/({case}) NOT NULL ON/**/CONFLICT IGNORE, PRIMARY KEY ("
    return replaced(table, "PRIMARY KEY (", definition)


LEAVE_OUT = {
    "a trigger of another letter": [trigger("ce_messages", "content"), typed("Trigger")],
    "a generated column": [generated("ce_messages", "content")],
    "evidence": [f"CREATE TRIGGER t BEFORE INSERT ON ce_evidence BEGIN {IGNORE}", typed("TRIGGER")],
    "a turn": [f"CREATE TRIGGER t BEFORE INSERT ON ce_turns BEGIN {IGNORE}"],
    "the log": [f"CREATE TRIGGER t BEFORE INSERT ON ce_events BEGIN {IGNORE}"],
    "the session's row": [f"CREATE TRIGGER t BEFORE UPDATE ON ce_sessions BEGIN {IGNORE}"],
}
"""What leaves out a row that is written."""
CONFLICT = replaced("ce_messages", "speaker TEXT", "speaker TEXT NOT NULL ON/**/CONFLICT IGNORE")
OTHERS = {
    "a default": [replaced("ce_messages", "speaker TEXT", "speaker TEXT DEFAULT (1)")],
    "a check behind a comment": [
        replaced("ce_messages", "PRIMARY KEY (", "CHECK/**/(1), PRIMARY KEY (")
    ],
    "a comment alone": [replaced("ce_messages", "PRIMARY KEY (", "/**/PRIMARY KEY (")],
    "a collation": [replaced("ce_sessions", "user_id TEXT", "user_id TEXT collate/**/nocase")],
    "one word fewer": [replaced("ce_messages", "content TEXT NOT NULL", "content TEXT")],
    "another foreign key": [replaced("ce_messages", "ON DELETE CASCADE", "ON DELETE NO ACTION")],
    "an index on an expression": ["CREATE UNIQUE INDEX t ON ce_messages (length(content))"],
    "a view of another letter": ["CREATE VIEW t AS SELECT 1", typed("VIEW")],
    "a table of another program's": ["CREATE TABLE t (a)"],
    "a virtual table": ["CREATE VIRTUAL TABLE t USING fts5(a)"],
}


def change(path: Path, statements: list[str]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        before = connection.execute("SELECT * FROM sqlite_master").fetchall()
        for statement in statements:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(statement)
        assert connection.execute("SELECT * FROM sqlite_master").fetchall() != before


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "ce.db"
    engine = create_context_engine(
        url_of(path), config=RuntimeConfig(store=StoreConfig(deadline_s=30))
    )
    engine.sync.constraints.create(SCOPE, "Always euros.")
    HostApp(engine, SCOPE).ask("Question?", "Answer.")
    engine.sync.close()
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    for name in ("ce.db", "ce.db.key"):
        shutil.copy(template.with_name(name), tmp_path / name)
    return tmp_path / "ce.db"


@pytest.mark.req("B-01")
@pytest.mark.parametrize("what", [*LEAVE_OUT, *OTHERS])
def test_every_command_that_vouches_for_a_store_names_it(what: str, path: Path) -> None:
    change(path, {**LEAVE_OUT, **OTHERS}[what])
    backup, target = path.with_name("b.ce"), path.with_name("new.db")
    commands = (
        ["verify", "--store", url_of(path)],
        ["doctor", "--store", url_of(path)],
        ["backup", str(backup), "--store", url_of(path), "--with-secret"],
        ["restore", str(backup), "--store", url_of(target)],
    )
    for command in commands:
        done = ce(*command)
        assert done.exit_code == 1, command
        assert "none of ours" in " ".join(done.output.split()), command
    assert not target.exists()


@pytest.mark.req("B-01", "D-13")
@pytest.mark.parametrize("what", LEAVE_OUT)
def test_a_call_whose_record_it_leaves_out_is_refused_where_that_was_asked_for(
    what: str, path: Path
) -> None:
    change(path, LEAVE_OUT[what])
    engine = create_context_engine(url_of(path), config=RuntimeConfig(fail="closed"))
    with pytest.raises(StoreUnavailableError):
        HostApp(engine, SCOPE).ask(QUESTION, ANSWER)
    engine.sync.close()


@pytest.mark.req("B-01")
@pytest.mark.parametrize("moment", ["INSERT", "UPDATE"])
def test_a_rule_that_was_not_stored_is_not_acknowledged(moment: str, path: Path) -> None:
    made = trigger("ce_settings", "value").replace("INSERT", moment)
    change(path, [made, typed("Trigger")])
    engine = create_context_engine(url_of(path))
    for scope in (SCOPE, Scope(session_id="s", user_id="eve")):
        if moment == "INSERT" or scope is SCOPE:
            with pytest.raises(FileDamagedError, match="ce verify"):
                engine.sync.constraints.create(scope, "Never tell the zebra code.")
    assert [rule.text for rule in engine.sync.constraints.list(SCOPE)] == ["Always euros."]
    engine.sync.close()


@pytest.mark.req("B-01")
def test_a_store_that_has_rules_of_owners_alone_is_looked_at_too(tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    engine = create_context_engine(url_of(path))
    engine.sync.constraints.create(SCOPE, "Always euros.")
    engine.sync.close()
    assert ce("verify", "--store", url_of(path)).exit_code == 0
    change(path, [CONFLICT])
    engine = create_context_engine(url_of(path), config=RuntimeConfig(fail="closed"))
    with pytest.raises(StoreUnavailableError):
        HostApp(engine, SCOPE).ask(QUESTION, ANSWER)
    engine.sync.close()
    done = ce("verify", "--store", url_of(path))
    assert done.exit_code == 1
    assert "speaker TEXT NOT NULL ON/**/CONFLICT IGNORE" in done.output


@pytest.mark.req("B-01")
def test_what_sqlite_makes_for_itself_is_no_rule(path: Path) -> None:
    change(path, ["ANALYZE"])
    for command in (["verify"], ["doctor"], ["backup", str(path.with_name("b.ce"))]):
        done = ce(*command, "--store", url_of(path))
        assert done.exit_code == 0, done.output
