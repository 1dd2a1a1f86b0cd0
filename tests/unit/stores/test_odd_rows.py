"""Values of any type in any column of an SQLite file: each door answers or names what is wrong, and hides nobody else."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ce_engine import ContextEngine, ContextEngineError, Scope, create_context_engine
from ce_engine.stores.base import BaseStore
from ce_engine.stores.tables import tables
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import ce
from tests.unit.audit.forged_store import PATIENT, SCOPE, fill


pytestmark = pytest.mark.req("B-01", "B-03")
ELSE = Scope(session_id="s", user_id="li", account_id="a")
ODD: tuple[object, ...] = (
    *(None, 0, -1, 2**63 - 1, -(2**63), 7.5, float("inf"), 10**12),
    *("", "文", "{", "[]", "null", "7", "[" * 50_000, "\x02json:", "\x02seal:AAAA"),
    *(b"", b"\x00\xff", b"=", b"t\xff" * 9, b"\xff\xffCE\x01\x04abcd", b"\x00" * 16),
)
"""What SQLite takes in a column of any type, where nobody else looks."""
COLUMNS = [
    (table.name, column.name)
    for table in tables.metadata.tables.values()
    for column in table.columns
    if table.name != "ce_revision" and (table.name, column.name) != ("ce_sessions", "id")
]
SEED, EACH = 21, 1
"""A run with 3 of each takes six minutes."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of several users, with something in every table."""
    folder = tmp_path_factory.mktemp("odd")
    fill(folder / "ce.db")
    engine = opened(folder / "ce.db")
    for scope in (SCOPE, ELSE):
        engine.sync.constraints.create(scope, "请简短")
    HostApp(engine, ELSE).ask("你好", "hello")
    engine.sync.close()
    return folder


def opened(path: Path) -> ContextEngine:
    return create_context_engine(f"sqlite:///{path}", config=PATIENT)


def doors(engine: ContextEngine) -> Iterator[Callable[[], object]]:
    """All that reads of the spoilt session, goes on with it, or takes it away."""
    sync, run, store = engine.sync, engine.loop.run, engine.store
    assert isinstance(store, BaseStore)
    yield lambda: sync.get_session(SCOPE)
    yield lambda: sync.list_evidences(SCOPE)
    yield lambda: sync.list_turns(SCOPE)
    yield lambda: sync.list_events(SCOPE)
    yield lambda: sync.verify(SCOPE)
    yield sync.verify_settings
    yield lambda: sync.trace(SCOPE, "x")
    yield lambda: sync.constraints.list(SCOPE)
    yield lambda: sync.budgets.get(SCOPE)
    yield lambda: sync.export_user_data(SCOPE.account_id, SCOPE.user_id)
    yield lambda: run(store.list_context_blocks(SCOPE))
    yield lambda: run(store.list_tasks(SCOPE))
    yield lambda: run(store.whole(SCOPE))
    yield lambda: run(store.list_settings())
    yield lambda: HostApp(engine, SCOPE).ask("Go on?", "Yes.")
    yield sync.flush
    yield lambda: sync.constraints.create(SCOPE, "更短")
    yield lambda: sync.delete_session(SCOPE)
    yield lambda: sync.delete_user_data(SCOPE.account_id, SCOPE.user_id)


def spoil(path: Path, table: str, column: str, value: object) -> bool:
    """Put a value into one row of the session, or of its user's settings; false if SQLite does not take it."""
    mine = "(SELECT id FROM ce_sessions WHERE session_id = 's' AND user_id = 'u')"
    where = {
        "ce_sessions": f"id = {mine}",
        "ce_settings": "user_id = 'u'",
    }.get(table, f"session = {mine}")
    key = "rowid" if table != "ce_events" else "seq"
    one = f"{key} = (SELECT min({key}) FROM {table} WHERE {where}) AND {where}"
    with closing(sqlite3.connect(path)) as database:
        find = "SELECT sql FROM sqlite_master WHERE name = ?"
        [schema] = database.execute(find, (table,)).fetchone()
    write_schema(path, table, schema.replace(" NOT NULL", ""))
    done = 0
    with closing(sqlite3.connect(path)) as database, suppress(sqlite3.IntegrityError), database:
        change = f"UPDATE {table} SET {column} = ? WHERE {one}"
        done = database.execute(change, (value,)).rowcount
    write_schema(path, table, schema)
    return done == 1


def write_schema(path: Path, table: str, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (statement, table))


def cases() -> list[tuple[str, str, object]]:
    """Some values for each column; the seed says which."""
    rng = random.Random(SEED)
    return [(t, c, value) for t, c in COLUMNS for value in rng.sample(ODD, EACH)]


@pytest.mark.parametrize("table", sorted({table for table, _ in COLUMNS}))
def test_every_door_answers_or_names_what_is_wrong(
    table: str, filled: Path, tmp_path: Path
) -> None:
    tried = 0
    for place, (of, column, value) in enumerate(cases()):
        if of != table:
            continue
        folder = tmp_path / str(place)
        shutil.copytree(filled, folder)
        path = folder / "ce.db"
        if not spoil(path, table, column, value):
            continue
        tried += 1
        what = f"{table}.{column} = {value!r:.40}"
        check(path, what)
        shutil.rmtree(folder)
    assert tried > 0


def fault(door: Callable[[], object]) -> str:
    """What a door raises that is no error of ours."""
    try:
        door()
    except ContextEngineError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def check(path: Path, what: str) -> None:
    done = ce("verify", "--json", "--store", f"sqlite:///{path}")
    assert done.exception is None or isinstance(done.exception, SystemExit), (what, done.exception)
    told = json.loads(done.stdout)
    mine = {
        each["session_id"]: each["status"] for each in told["sessions"] if each["user_id"] == "li"
    }
    # SQLite itself names a NULL where there may be none, and nobody knows what else it gives of such a file.
    is_null = f"NULL value in {what.partition(' ')[0]}" in done.stdout
    assert mine == {"s": "tampered" if is_null else "intact"}, what
    engine = opened(path)
    try:
        for number, door in enumerate(doors(engine)):
            assert fault(door) == "", (what, number)
            listed = engine.sync.list_sessions(account_id="a", user_id="li")
            assert [each.session_id for each in listed] == ["s"], (what, number)
        everybody = engine.sync.list_sessions(account_id="a", user_id=None)
        assert "li" in {each.user_id for each in everybody}, what
        HostApp(engine, ELSE).ask("And now?", "Still here.")
        assert engine.sync.flush(), what
        document = engine.sync.get_session(ELSE)
        assert document is not None, what
        assert document.session.messages[-1].content == "Still here.", what
        assert "请简短" in str(engine.sync.constraints.list(ELSE)), what
    finally:
        engine.sync.close()
