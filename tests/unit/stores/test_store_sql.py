"""The SQL store's own promises: schema, cost in statements and bytes, silence, the key file."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.pool import Pool

from ce_engine.errors import StoreError
from ce_engine.ports.store import Store
from ce_engine.schema.rows import AppendEvents, AppendMessages, PutTurn, Write
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting, Standing
from ce_engine.stores import open_store
from ce_engine.stores.base import BaseStore
from ce_engine.stores.tables import SqlStore, macs, tables
from ce_engine.stores.tables import sqlite as database
from ce_engine.stores.tables.migrations import HEAD, KNOWN
from ce_engine.stores.tables.migrations import upgrade as alembic_upgrade
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE, bare_row, message
from ce_engine.testing.store_reading import read_names, read_state
from tests.hosts.store_host import FORK, append, open_at, run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ce.db"


# Schema


def alembic_on(path: Path, work: Callable[[Connection], None]) -> None:
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        work(connection)
    engine.dispose()


def schema(path: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {
            name: [
                connection.execute(f"PRAGMA {what}({name})").fetchall()
                for what in ("table_info", "foreign_key_list", "index_list")
            ]
            for (name,) in names
        }


def test_a_new_file_has_the_schema_that_the_revisions_make(path: Path, tmp_path: Path) -> None:
    run(path, append("m1"))
    migrated = tmp_path / "migrated.db"
    alembic_on(migrated, alembic_upgrade.upgrade)
    assert schema(path) == schema(migrated)

    def compare(connection: Connection) -> None:
        context = MigrationContext.configure(connection, opts={"version_table": "ce_revision"})
        assert compare_metadata(context, tables.metadata) == []
        assert context.get_current_revision() == HEAD

    alembic_on(path, compare)


def test_the_revisions_known_are_those_that_are_there() -> None:
    scripts = ScriptDirectory.from_config(alembic_upgrade.config())
    found = [script.revision for script in scripts.walk_revisions()]
    assert found[::-1] == list(KNOWN)
    assert scripts.get_current_head() == HEAD


def test_all_who_race_to_make_the_file_find_it_made(tmp_path: Path) -> None:
    async def race(path: Path) -> None:
        stores = [open_at(path) for _ in range(4)]
        await asyncio.gather(*(store.check() for store in stores))
        for store in stores:
            await store.close()

    for n in range(10):
        asyncio.run(race(tmp_path / f"{n}.db"))


def test_settings_of_before_their_macs_are_not_verified(path: Path) -> None:
    before = KNOWN[KNOWN.index("0006") - 1]
    alembic_on(path, lambda connection: alembic_upgrade.upgrade(connection, before))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO ce_settings VALUES ('a', 'u', '', 'x', 3, '[\"字\"]')")
    scope = Scope(session_id="s", account_id="a", user_id="u")
    found = run(path, lambda store: store.get_setting(scope, "x"))
    assert found == Setting(["字"], 3, Standing.UNVERIFIED)
    assert run(path, lambda store: store.put_setting(scope, "x", 1)) == 4
    assert run(path, lambda store: store.get_setting(scope, "x")) == Setting(1, 4)


@pytest.mark.req("B-01")
@pytest.mark.parametrize("revision", KNOWN)
def test_what_an_older_release_made_is_none_of_somebody_elses(path: Path, revision: str) -> None:
    alembic_on(path, lambda connection: alembic_upgrade.upgrade(connection, revision))
    run(path, append("m1"))

    async def damaged(store: Store) -> list[str]:
        assert isinstance(store, BaseStore)
        return await store.damaged()

    assert run(path, damaged) == []


@pytest.mark.parametrize("with_a_row", [False, True], ids=["empty", "with-a-row"])
def test_the_oldest_schema_is_brought_up_to_date(path: Path, with_a_row: bool) -> None:
    alembic_on(path, lambda connection: alembic_upgrade.upgrade(connection, KNOWN[0]))
    if with_a_row:
        columns = "version, epoch, last_seq, last_evidence, last_event_seq, ephemeral, access_count"
        texts = "account_id, user_id, session_id, chain_head, key_id, created_at, updated_at"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                f"INSERT INTO ce_sessions ({columns}, {texts}, salt, last_accessed_at, project_id) "
                "VALUES (7, 0, 0, 0, 0, 0, 7, 'a', 'u', 's', '', 'k', '2025', '2025', x'00', '', '')"
            )
    run(path, append("m1"))
    version = run(path, lambda store: store.version(SCOPE))
    assert version == ((8, 0, 0) if with_a_row else (1, 0, 0))
    assert run(path, lambda store: store.put_setting(SCOPE, "x", ["字"], 0)) == 1
    assert run(path, lambda store: store.get_setting(SCOPE, "x")) == Setting(["字"], 1)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM ce_revision").fetchall() == [(HEAD,)]


UPGRADES = """
import asyncio, sys, threading
from ce_engine.stores.tables import SqlStore
from ce_engine.testing.samples import SCOPE

async def version(path):
    store = SqlStore(f"sqlite:///{path}", lock_timeout_s=30)
    print(*await store.version(SCOPE))
    await store.close()

threads = [threading.Thread(target=asyncio.run, args=(version(path),)) for path in sys.argv[1:]]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_several_older_files_are_upgraded_at_once_in_one_process(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.db" for n in range(6)]
    for path in paths:
        alembic_on(path, lambda connection: alembic_upgrade.upgrade(connection, KNOWN[0]))
    command = [sys.executable, "-c", UPGRADES, *map(str, paths)]  # it may crash the interpreter
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["0"] * 3 * len(paths)), done.stderr
    for path in paths:
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT * FROM ce_revision").fetchall() == [(HEAD,)]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_was_forked_during_an_upgrade_upgrades_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{n}.db" for n in range(2)]
    for path in paths:
        alembic_on(path, lambda connection: alembic_upgrade.upgrade(connection, KNOWN[0]))
    parent, is_begun, goes_on = os.getpid(), threading.Event(), threading.Event()
    upgrades = command.upgrade

    def waits(configuration: Any, revision: str) -> None:
        if os.getpid() == parent:
            is_begun.set()
            goes_on.wait(100)
        upgrades(configuration, revision)

    monkeypatch.setattr(command, "upgrade", waits)
    thread = threading.Thread(target=run, args=(paths[0], append("parent")))
    thread.start()
    assert is_begun.wait(60)
    child = FORK.Process(target=run, args=(paths[1], append("child")))
    child.start()
    child.join(60)
    child.kill()
    goes_on.set()
    thread.join(60)
    child.join(60)
    assert child.exitcode == 0
    assert [run(path, read_names) for path in paths] == [["parent"], ["child"]]


NEXT_REVISION = '''"""A later revision."""
import sqlalchemy as sa
from alembic import op
revision = "next"
down_revision = {down!r}

def upgrade():
    op.add_column("ce_sessions", sa.Column("colour", sa.Text(), server_default="red"))
'''


def test_an_older_file_is_upgraded_once_by_whoever_comes_first(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(path, append("m1"))
    folder = tmp_path / "migrations"
    shutil.copytree(alembic_upgrade.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "next.py").write_text(NEXT_REVISION.format(down=HEAD))
    monkeypatch.setattr(alembic_upgrade, "FOLDER", folder)
    monkeypatch.setattr(database, "HEAD", "next")
    monkeypatch.setattr(database, "KNOWN", (*KNOWN, "next"))

    async def work(_: Store) -> None:
        stores = [open_at(path) for _ in range(4)]
        await asyncio.gather(*(store.version(SCOPE) for store in stores))
        await asyncio.gather(*(append(f"n{n}")(store) for n, store in enumerate(stores)))
        for store in stores:
            await store.close()

    run(path, work)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM ce_revision").fetchall() == [("next",)]
        assert connection.execute("SELECT colour, version FROM ce_sessions").fetchall() == [
            ("red", 5)
        ]


def loaded_after(code: str, folder: Path) -> set[str]:
    report = "import sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        cwd=folder,
        env={"PYTHONPATH": str(Path(database.__file__).parents[3])},
        check=True,
        stdout=subprocess.PIPE,
        timeout=60,
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_sqlalchemy_comes_with_the_first_sql_store_and_alembic_only_with_an_old_file(
    path: Path, tmp_path: Path
) -> None:
    run(path, append("m1"))
    look = "import asyncio, ce_engine.stores as s; from ce_engine.schema.scope import Scope"
    memory = loaded_after(f"{look}; s.open_store('memory://')", tmp_path)
    assert memory & {"sqlalchemy", "alembic", "sqlite3"} == set()
    opened = loaded_after(
        f"{look}; asyncio.run(s.open_store('sqlite:///ce.db').version(Scope(session_id='s')))",
        tmp_path,
    )
    assert opened & {"sqlalchemy", "alembic"} == {"sqlalchemy"}


# Cost and silence


@contextmanager
def statements() -> Iterator[list[str]]:
    """What SQLite is asked on connections that are opened here: the beginning of each kind of statement, once."""
    seen: list[str] = []

    def note(statement: str) -> None:
        kind = " ".join(statement.split()[:3])
        if kind not in seen:
            seen.append(kind)

    def trace(connection: sqlite3.Connection, _: object) -> None:
        connection.set_trace_callback(note)

    event.listen(Pool, "connect", trace)
    yield seen
    event.remove(Pool, "connect", trace)


async def test_a_phase_costs_few_statements(path: Path) -> None:
    group: list[Write] = [
        AppendMessages([bare_row("m2"), bare_row("m3")]),
        AppendEvents([samples.event("v2"), samples.event("v3")]),
        PutTurn(samples.turn("t1")),
    ]
    with statements() as seen:
        store = open_at(path)
        await append("m0", "m1")(store)
        await store.version(SCOPE)
        seen.clear()
        await store.apply(SCOPE, group)
        assert len(seen) == 7, seen  # begin, head, rows, events, turn, head, commit
        seen.clear()
        await store.version(SCOPE)
        assert len(seen) == 1, seen
    await store.close()


async def test_a_turn_costs_about_two_kilobytes_beside_its_content(path: Path) -> None:
    sizes = []
    for part in (range(100), range(100, 300)):
        store = open_at(path)
        for n in part:
            await store.apply(SCOPE, _turn(n))
        await store.close()  # moves everything from the write-ahead log into the file
        sizes.append(path.stat().st_size)  # noqa: ASYNC240 - one look
    assert (sizes[1] - sizes[0]) / 200 < 2300


def _turn(n: int) -> list[Write]:
    """A question and its answer of one character each, as an adapter records them."""
    names = [f"{kind}{n:035}" for kind in "qa"]  # as long as a UUID
    rows = [bare_row(name, "x") for name in names]
    for row in rows:
        row.key = row.loose_key = b"k" * 16
        row.turn_id = row.request_id = row.message.parent_id = names[0]
    events = [
        samples.event(f"v{name}", turn_id=names[0], request_id=names[0], payload={"id": name})
        for name in names
    ]
    turn = samples.turn(names[0], request_id=names[0], answer_message_id=names[1])
    return [AppendMessages(rows), AppendEvents(events), PutTurn(turn)]


async def test_no_content_in_logs_or_errors(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store = open_at(path)
    await store.apply(SCOPE, [AppendMessages([bare_row("m1", "open sesame")])])
    with closing(sqlite3.connect(path)) as other, other:
        refuse = "BEFORE INSERT ON ce_messages BEGIN SELECT RAISE(ABORT, 'no'); END"
        other.execute(f"CREATE TRIGGER refuse {refuse}")
    with pytest.raises(StoreError, match="refused a statement") as error:
        await store.apply(SCOPE, [AppendMessages([bare_row("m2", "open sesame")])])
    chain: BaseException | None = error.value
    while chain is not None:
        assert "sesame" not in f"{chain!s} {chain!r}"
        chain = chain.__cause__ or chain.__context__
    assert "sesame" not in caplog.text
    await store.close()


# The key file


def test_the_key_file_is_private_and_stays(path: Path) -> None:
    first = open_store(f"sqlite:///{path}").secret
    key = path.with_name("ce.db.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert bytes.fromhex(key.read_text()) == first
    assert len(first) == 32
    assert open_store(f"sqlite:///{path}").secret == first
    assert [file.name for file in path.parent.iterdir() if file.is_file()] == ["ce.db.key"]
    other = open_store(f"sqlite:///{path.with_name('other.db')}")
    assert other.secret != first


def test_the_variable_stands_above_the_key_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CE_SECRET", "密 a secret of many hosts")
    for url in (f"sqlite:///{path}", "memory://"):
        assert open_store(url).secret == "密 a secret of many hosts".encode()
    assert not path.with_name("ce.db.key").exists()


def test_all_who_race_for_the_key_agree(path: Path) -> None:
    for n in range(30):
        url = f"sqlite:///{path}{n}"
        start = threading.Barrier(4)

        def ask(_: int, url: str = url, start: threading.Barrier = start) -> bytes:
            store = open_store(url)
            start.wait()
            return store.secret

        with ThreadPoolExecutor(4) as threads:
            assert len(set(threads.map(ask, range(4)))) == 1
    assert len(list(path.parent.iterdir())) == 30


async def test_the_clock_may_be_handed_in(path: Path) -> None:
    class Stopped:
        def now_iso(self) -> str:
            return "2030-01-01T00:00:00.000Z"

    store = SqlStore(f"sqlite:///{path}", clock=Stopped())
    await store.apply(SCOPE, message("m1"))
    head = (await read_state(store)).head
    assert (head.created_at, head.updated_at) == ("2030-01-01T00:00:00.000Z",) * 2
    await store.close()


@pytest.mark.req("A-25")
def test_a_commit_that_a_reader_holds_up_is_made_once_more(tmp_path: Path) -> None:
    """A file without a write-ahead log (on a network's disk): who reads it keeps others from committing."""
    path = tmp_path / "ce.db"
    run(path, append("m1"))

    async def held_up(store: Store) -> list[str | None]:
        await append("m2")(store)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM ce_messages").fetchone()
        timer = threading.Timer(0.1, reader.rollback)
        timer.start()
        await append("m3", "m4")(store)
        timer.join()
        document = await store.get_session(SCOPE)
        assert document is not None
        return [each.message_id for each in document.session.messages]

    with closing(sqlite3.connect(path, check_same_thread=False)) as reader:
        assert reader.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
        assert run(path, held_up) == ["m1", "m2", "m3", "m4"]


COVERED = {
    "ce_sessions": (
        "account_id user_id session_id version epoch last_seq last_evidence last_event_seq chain_head "
        "salt key_id ephemeral project_id created_at updated_at last_accessed_at access_count "
        "frameworks summary meta macs macs_mac"
    ),
    "ce_messages": (
        "seq message_id parent_id role origin speaker at key loose_key host_id lane_key turn_id "
        "request_id framework tokens counted_by length aside has_sensitive withheld late "
        "redactor_version extra content"
    ),
    "ce_evidence": (
        "seq evidence_id dedup_key tokens turn_id message_id lane_key project_id shared "
        "redactor_version body content"
    ),
    "ce_blocks": "block_id body",
    "ce_tasks": "task_id body",
    "ce_model_usage": "model_usage_id turn_id body",
    "ce_tool_calls": "tool_call_id host_call_id message_id turn_id ended redactor_version body",
    "ce_turns": (
        "turn_id request_id lane status purpose framework parent_turn_id attempt opened_at closed_at "
        "owner tip_message_id answer_message_id model_usage_id attempts report"
    ),
    "ce_cuts": "lane_key kind anchor_message_id budget made_at",
    "ce_summaries": "anchor_message_id body",
    "ce_placeholders": "label mac number",
}
"""The columns of MACs that are in files; a release may add to the end what may be `NULL`, and no more."""


@pytest.mark.req("B-01")
def test_a_column_that_has_macs_keeps_its_place() -> None:
    found = {content.table.name: content.names for content in macs.CONTENT.values()}
    found["ce_sessions"] = macs.HEAD_NAMES
    assert found.keys() == COVERED.keys()
    for table, names in found.items():
        known = COVERED[table].split()
        assert list(names[: len(known)]) == known
        assert all(tables.metadata.tables[table].c[name].nullable for name in names[len(known) :])
    key = macs.RowKey(b"k" * 32)
    content = macs.CONTENT[tables.tasks]
    assert key.of(content, (b"k1", b"{}")) == key.of(content, (b"k1", b"{}", None))
    assert key.of(content, (b"k1", b"{}")) != key.of(content, (b"k1", b"{}", 0))
