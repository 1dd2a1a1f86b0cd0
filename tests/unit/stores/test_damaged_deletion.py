"""A session of which a row is damaged can be deleted, as the error says; and so can its user's other ones."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import FileDamagedError, create_context_engine
from ce_engine.stores.tables import tables
from tests import postgres_server
from tests.hosts.cli_host import ce
from tests.unit.audit.forged_store import OTHER, PATIENT, SCOPE, by_hand, first_turns
from tests.unit.stores.test_odd_rows import COLUMNS, ODD, filled, opened, spoil


__all__ = ["filled"]
pytestmark = pytest.mark.req("A-30", "B-08")
NAMES = {"session_id", "user_id", "account_id", "project_id", "salt", "session", "version"}
"""Columns that say whose a row is, and that there is a session."""
SPOILT: list[tuple[str, str, object]] = [
    ("ce_sessions", "last_event_seq", 0),
    ("ce_sessions", "frameworks", "7"),
    ("ce_summaries", "body", b"\x00\xff"),
    ("ce_cuts", "lane_key", "\x02json:"),
    ("ce_placeholders", "label", "\x02json:"),
    ("ce_turns", "report", b"\x00\xff"),
]


def cases() -> list[tuple[str, str, object]]:
    """A value or two for each column; the seed says which."""
    rng = random.Random(4)
    columns = [(t, c) for t, c in COLUMNS if c not in NAMES and t != "ce_settings"]
    return SPOILT + [(table, column, rng.choice(ODD)) for table, column in columns]


def delete(path: Path) -> int:
    """Sessions that are gone after it is deleted."""
    engine = opened(path)
    try:
        return engine.sync.delete_session(SCOPE).sessions
    finally:
        engine.sync.close()


def texts(path: Path, session_id: str) -> int:
    """Rows of a session in which something is left."""
    mine = f"(SELECT id FROM ce_sessions WHERE session_id = '{session_id}' AND user_id = 'u')"
    left = [
        t.name
        for t in tables.metadata.tables.values()
        if "session" in t.c and t is not tables.events
    ]
    with closing(sqlite3.connect(path)) as database:
        return sum(
            database.execute(f"SELECT count(*) FROM {name} WHERE session = {mine}").fetchone()[0]
            for name in left
        )


@pytest.mark.parametrize("table", sorted({table for table, *_ in cases()}))
def test_what_is_damaged_can_be_deleted(table: str, filled: Path, tmp_path: Path) -> None:
    for place, (of, column, value) in enumerate(cases()):
        folder = tmp_path / str(place)
        if of != table:
            continue
        shutil.copytree(filled, folder)
        path = folder / "ce.db"
        if not spoil(path, table, column, value):
            continue
        what = f"{table}.{column} = {value!r:.40}"
        assert delete(path) == 1, what
        assert texts(path, SCOPE.session_id) == 0, what
        assert texts(path, OTHER.session_id) > 0, what
        shutil.rmtree(folder)


def test_what_is_damaged_keeps_none_of_a_users_other_sessions(filled: Path, tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    assert spoil(path, "ce_sessions", "version", "")
    engine = opened(path)
    try:
        with pytest.raises(FileDamagedError):
            engine.sync.delete_user_data("a", "u")
        assert texts(path, OTHER.session_id) == 0
        assert [i.user_id for i in engine.sync.list_sessions(account_id="a", user_id="li")] == [
            "li"
        ]
    finally:
        engine.sync.close()


def test_the_command_deletes_what_is_damaged(filled: Path, tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    for table, column, value in SPOILT:
        assert spoil(path, table, column, value)
    options = ("--user", "u", "--account", "a", "--store", f"sqlite:///{path}", "--yes")
    done = ce("delete", "--session", "s", *options)
    assert done.exit_code == 0, done.output
    assert texts(path, "s") == 0
    assert texts(path, OTHER.session_id) > 0


@pytest.mark.skipif(
    not postgres_server.IS_THERE, reason="no PostgreSQL: see tests/postgres_server.py"
)
def test_postgres_deletes_what_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", "a secret that the hosts of these tests share")
    with postgres_server.new_schema() as url:
        engine = create_context_engine(url, config=PATIENT)
        for scope in (SCOPE, OTHER):
            first_turns(engine, scope)
            by_hand(engine, scope)
        engine.sync.close()
        mine = "(SELECT id FROM ce_sessions WHERE session_id = 's')"
        with postgres_server.connected(url) as database:
            for table, column, value in SPOILT:
                where = f"id = {mine}" if table == "ce_sessions" else f"session = {mine}"
                one = f"id = (SELECT min(id) FROM {table} WHERE {where})"
                database.execute(f"UPDATE {table} SET {column} = %s WHERE {one}", (value,))
        engine = create_context_engine(url, config=PATIENT)
        try:
            assert engine.sync.delete_session(SCOPE).sessions == 1
            assert engine.sync.get_session(SCOPE) is None
            assert engine.sync.get_session(OTHER) is not None
        finally:
            engine.sync.close()
