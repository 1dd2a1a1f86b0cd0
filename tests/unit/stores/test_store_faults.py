"""Real faults on real files: each is told with its cure, harms nothing, and ends when its cause does."""
# ruff: noqa: ASYNC240 - these tests break files, and nobody else waits on their loop

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from ce_engine.errors import MigrationError, StoreUnavailableError
from ce_engine.schema.rows import AppendMessages
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Versions
from ce_engine.stores.tables import SqlStore
from ce_engine.stores.urls import sqlite_path
from ce_engine.testing.samples import SCOPE, bare_row, message
from ce_engine.testing.store_reading import read_names
from tests.hosts.store_host import nobody, public_folder


IN_TIME_S = 10
"""Far above every deadline: what it catches is a call that never ends."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "ce.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(f"sqlite:///{path}", lock_timeout_s=0.05)
    yield store
    await store.close()


async def refused(store: SqlStore, expected: str, *, reads: bool = True) -> None:
    """Every call is refused in time, with an error that names the file and says `expected`."""
    calls: list[Any] = [
        lambda: store.apply(SCOPE, message("refused")),
        store.check,
    ]
    if reads:
        calls += [lambda: store.version(SCOPE), lambda: store.state(SCOPE), store.list_sessions]
    with anyio.fail_after(IN_TIME_S):
        for call in calls:
            with pytest.raises(StoreUnavailableError) as error:
                await call()
            assert expected in str(error.value)
            assert repr(str(sqlite_path(store.url))) in str(error.value)


@contextmanager
def lock(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


async def test_locked_by_another_program(store: SqlStore, path: Path) -> None:
    await store.apply(SCOPE, message("m1"))
    with lock(path):
        await refused(store, "is locked by another connection", reads=False)
        assert await read_names(store) == ["m1"]
    await store.apply(SCOPE, message("m2"))
    assert await read_names(store) == ["m1", "m2"]


async def test_locked_before_it_was_ever_opened(store: SqlStore, path: Path) -> None:
    path.touch()
    with lock(path):
        await refused(store, "is locked by another connection")
    await store.apply(SCOPE, message("m1"))
    assert await read_names(store) == ["m1"]


async def test_a_queue_behind_a_lock_does_not_add_up(store: SqlStore, path: Path) -> None:
    await store.apply(SCOPE, message("m1"))
    failed = 0

    async def append(name: str) -> None:
        nonlocal failed
        try:
            await store.apply(SCOPE, message(name))
        except StoreUnavailableError:
            failed += 1

    with lock(path), anyio.fail_after(IN_TIME_S):  # 400 waits one after the other are 20 s
        async with anyio.create_task_group() as tasks:
            for n in range(400):
                tasks.start_soon(append, f"q{n}")
    assert failed == 400
    assert await read_names(store) == ["m1"]


async def test_a_short_lock_is_waited_for(path: Path) -> None:
    store = SqlStore(f"sqlite:///{path}", lock_timeout_s=30)
    await store.check()
    async with anyio.create_task_group() as tasks:
        with lock(path):
            tasks.start_soon(store.apply, SCOPE, message("m1"))
            await anyio.sleep(0.05)
            assert await store.version(SCOPE) == Versions()
    assert await read_names(store) == ["m1"]
    await store.close()


async def test_a_folder_in_the_place_of_the_file(store: SqlStore, path: Path) -> None:
    path.mkdir()
    await refused(store, "is a folder. Name a file in it")
    path.rmdir()
    await store.apply(SCOPE, message("m1"))
    assert await read_names(store) == ["m1"]


async def test_a_folder_that_is_not_there(store: SqlStore, path: Path) -> None:
    path.parent.rmdir()
    await refused(store, f"its folder does not exist. Create {str(path.parent)!r}")
    assert not path.parent.exists()
    path.parent.mkdir()
    await store.apply(SCOPE, message("m1"))
    assert await read_names(store) == ["m1"]


async def test_a_file_in_the_place_of_the_folder(store: SqlStore, path: Path) -> None:
    path.parent.rmdir()
    path.parent.touch()
    await refused(store, "is no folder")


@pytest.mark.parametrize("content", [b"This is a letter, not a database.\n" * 99, b"SQLite?"])
async def test_a_file_that_is_no_database(store: SqlStore, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    await refused(store, "is no SQLite database. It was left as it is")
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    path.unlink()
    await store.apply(SCOPE, message("m1"))
    assert await read_names(store) == ["m1"]


async def test_an_empty_file_is_a_new_store(store: SqlStore, path: Path) -> None:
    path.touch()
    assert await store.version(SCOPE) == Versions()
    await store.apply(SCOPE, message("m1"))
    assert await read_names(store) == ["m1"]


async def test_a_damaged_database(store: SqlStore, path: Path) -> None:
    rows = [bare_row(f"m{n}", "text " * 200) for n in range(200)]
    await store.apply(SCOPE, [AppendMessages(rows)])
    await store.close()  # moves everything from the write-ahead log into the file
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 8192) + whole[-4096:])
    damaged = path.read_bytes()
    again = SqlStore(f"sqlite:///{path}")
    await refused(again, "is a damaged SQLite database. It was left as it is")
    assert path.read_bytes() == damaged
    path.write_bytes(whole)
    assert len(await read_names(again)) == 200
    await again.close()


async def test_a_database_of_another_program(store: SqlStore, path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    before = path.read_bytes()
    await refused(store, "holds tables of another program (recipes). It was left as it is")
    assert path.read_bytes() == before


async def test_a_database_of_a_newer_release(store: SqlStore, path: Path) -> None:
    await store.apply(SCOPE, message("m1"))
    await store.close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE ce_revision SET version_num = '9999'")
    before = path.read_bytes()
    again = SqlStore(f"sqlite:///{path}")
    for call in (again.version(SCOPE), again.apply(SCOPE, message("m2")), again.check()):
        with pytest.raises(MigrationError, match=r"'9999'; this release knows .*It was left"):
            await call
    await again.close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("leftovers", [True, False], ids=["log-stays", "all-gone"])
async def test_deleted_while_open(store: SqlStore, path: Path, leftovers: bool) -> None:
    for n in range(20):
        await store.apply(SCOPE, message(f"old{n}"))
    await _read_on_all_threads(store, (20, 0))
    for file in path.parent.iterdir():
        if file == path or not leftovers:
            file.unlink()
    assert await store.version(SCOPE) == Versions()
    assert not path.exists()
    for n in range(20):
        await store.apply(SCOPE, message(f"new{n}"))
        await _read_on_all_threads(store, (n + 1, 0))
    assert await read_names(store) == [f"new{n}" for n in range(20)]
    await store.close()
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def _read_on_all_threads(store: SqlStore, expected: tuple[int, int]) -> None:
    async def read() -> None:
        assert (await store.version(SCOPE))[:2] == expected

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(read)


async def test_its_folder_deleted_while_open(store: SqlStore, path: Path) -> None:
    await store.apply(SCOPE, message("old"))
    await _read_on_all_threads(store, (1, 0))
    shutil.rmtree(path.parent)
    await refused(store, "its folder does not exist")
    path.parent.mkdir()
    await store.apply(SCOPE, message("new"))
    assert await read_names(store) == ["new"]


async def test_another_file_put_in_its_place(store: SqlStore, path: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    other = SqlStore(f"sqlite:///{backup}")
    await other.apply(SCOPE, message("from the backup"))
    await other.close()
    await store.apply(SCOPE, message("old"))
    await _read_on_all_threads(store, (1, 0))
    for file in path.parent.iterdir():
        file.unlink()
    backup.rename(path)
    assert await read_names(store) == ["from the backup"]
    await store.apply(SCOPE, message("next"))
    assert await read_names(store) == ["from the backup", "next"]


@contextmanager
def full_disk(pages: int) -> Iterator[None]:
    """Let databases that are opened meanwhile grow to so many pages only."""

    def limit(connection: Any, record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(Engine, "connect", limit)
    yield
    event.remove(Engine, "connect", limit)


async def test_a_full_disk(path: Path) -> None:
    big = [AppendMessages([bare_row("big", "x" * 1_000_000)])]
    with full_disk(pages=60):
        store = SqlStore(f"sqlite:///{path}")
        await store.apply(SCOPE, message("m1"))
        for _ in range(3):
            with anyio.fail_after(IN_TIME_S):
                with pytest.raises(StoreUnavailableError, match=r"the disk is full\. Free some"):
                    await store.apply(SCOPE, big)
        await store.apply(SCOPE, message("m2"))  # what is small still fits
        assert await store.version(SCOPE) == (2, 0, 0)
        await store.close()
    store = SqlStore(f"sqlite:///{path}")
    await store.apply(SCOPE, big)
    assert await read_names(store) == ["m1", "m2", "big"]
    await store.close()


async def test_a_disk_too_full_to_begin(path: Path) -> None:
    with full_disk(pages=5):
        store = SqlStore(f"sqlite:///{path}")
        await refused(store, "the disk is full")
        await store.close()
    store = SqlStore(f"sqlite:///{path}")
    await store.apply(SCOPE, message("m1"))
    assert await read_names(store) == ["m1"]
    await store.close()


@pytest.fixture
def public() -> Iterator[Path]:
    with public_folder() as folder:
        yield folder


async def _filled(path: Path) -> None:
    store = SqlStore(f"sqlite:///{path}")
    await store.apply(SCOPE, message("m1"))
    await store.close()


async def test_a_read_only_file(public: Path) -> None:
    path = public / "ce.db"
    await _filled(path)
    path.chmod(0o444)
    path.with_name("ce.db.key").chmod(0o444)
    store = SqlStore(f"sqlite:///{path}")
    with nobody():
        await refused(store, "is read-only. Give this user write permission", reads=False)
        assert await read_names(store) == ["m1"]
    for file in public.iterdir():
        file.chmod(0o666)
    with nobody():
        await store.apply(SCOPE, message("m2"))
        assert await read_names(store) == ["m1", "m2"]
        await store.close()


async def test_a_read_only_folder(public: Path) -> None:
    path = public / "ce.db"
    await _filled(path)
    path.chmod(0o666)
    public.chmod(0o555)
    store = SqlStore(f"sqlite:///{path}")
    with nobody():
        await refused(store, "Give this user write permission")
    public.chmod(0o777)
    with nobody():
        assert await read_names(store) == ["m1"]
        await store.close()


async def test_a_file_that_may_not_even_be_read(public: Path) -> None:
    path = public / "ce.db"
    await _filled(path)
    path.chmod(0o000)
    store = SqlStore(f"sqlite:///{path}")
    with nobody():
        await refused(store, "cannot be opened or made. Give this user read and write permission")
    await store.close()


async def test_a_key_file_that_cannot_be_made(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public.chmod(0o555)
    store = SqlStore(f"sqlite:///{public / 'ce.db'}")
    with nobody(), pytest.raises(StoreUnavailableError, match=r"ce\.db\.key.*set CE_SECRET"):
        store.secret  # noqa: B018 - reading it makes it
    monkeypatch.setenv("CE_SECRET", "a long text that nobody guesses")
    assert store.secret == b"a long text that nobody guesses"


@pytest.mark.parametrize("text", ["", "abc", "zz" * 32, "00" * 31])
async def test_a_damaged_key_file(store: SqlStore, path: Path, text: str) -> None:
    key = path.with_name("ce.db.key")
    key.write_text(text)
    with pytest.raises(StoreUnavailableError, match=r"ce\.db\.key.* is damaged.* Restore it"):
        store.secret  # noqa: B018 - reading it looks at the file
    assert key.read_text() == text
    with pytest.raises(StoreUnavailableError, match="is damaged"):
        await store.apply(Scope(session_id="new"), message("m1"))
    key.unlink()
    await store.apply(Scope(session_id="new"), message("m1"))
