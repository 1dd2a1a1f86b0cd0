"""The stores on a disk among processes and threads: shared files, forks, exits."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from ce_engine.errors import VersionConflictError
from ce_engine.ports.store import Store
from ce_engine.schema.settings import Setting
from ce_engine.stores.tables import sqlite as database
from ce_engine.testing.samples import SCOPE
from ce_engine.testing.store_reading import read_names
from tests.hosts import redis_host
from tests.hosts.store_host import FORK, append, check_chain, open_at, opening, run


@pytest.fixture(params=["ce.db", "sessions", "ce.redis"])
def path(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    path = tmp_path / str(request.param)
    if path.suffix != ".redis":
        yield path
        return
    monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")
    url = redis_host.url_at(path)  # the server is started here: each child would start its own
    yield path
    redis_host.forget(url)


def check_whole(path: Path) -> None:
    if path.suffix == ".db":
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def _append_in_process(path: Path, name: str, count: int) -> None:
    run(path, append(*(f"{name}-{n}" for n in range(count))))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.req("A-07")
def test_processes_append_to_one_session(path: Path) -> None:
    processes = [
        FORK.Process(target=_append_in_process, args=(path, f"p{n}", 50)) for n in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
    assert [process.exitcode for process in processes] == [0] * 4
    check_chain(path, 200)


def _count_in_process(path: Path, count: int) -> None:
    async def work(store: Store) -> None:
        done = 0
        while done < count:
            found = await store.get_setting(SCOPE, "n") or Setting(0, 0)
            with suppress(VersionConflictError):
                await store.put_setting(SCOPE, "n", found.value + 1, found.version)
                done += 1

    run(path, work)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.req("D-04")
def test_processes_that_change_one_setting_lose_nothing(path: Path) -> None:
    processes = [FORK.Process(target=_count_in_process, args=(path, 25)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
    assert [process.exitcode for process in processes] == [0] * 3
    assert run(path, lambda store: store.get_setting(SCOPE, "n")) == Setting(75, 75)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_opens_its_own(path: Path) -> None:
    async def work(store: Store) -> None:
        await append("before")(store)
        assert await read_names(store) == ["before"]
        children = [
            FORK.Process(target=_go_on, args=(store, [f"c{n}-{i}" for i in range(20)]))
            for n in range(3)
        ]
        for n, child in enumerate(children):
            child.start()
            await append(f"parent{n}")(store)
        for child in children:
            await asyncio.to_thread(child.join, 60)
        assert [child.exitcode for child in children] == [0] * 3
        await append("after")(store)
        assert (await read_names(store))[-1] == "after"

    run(path, work)
    check_chain(path, 65)
    check_whole(path)


def _go_on(store: Store, names: list[str]) -> None:
    async def main() -> None:
        await append(*names)(store)
        assert set(names) <= set(await read_names(store))

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_parent_that_closes_takes_nothing_from_its_child(path: Path) -> None:
    """SQLite drops its log with the last connection; the child's must count as one."""
    go_on = FORK.Event()
    waits = FORK.Event()

    def child(store: Store) -> None:
        asyncio.run(append("c1")(store))
        waits.set()
        go_on.wait(60)
        asyncio.run(append("c2")(store))

    async def parent(store: Store) -> Any:
        await append("p1")(store)
        assert await read_names(store) == ["p1"]
        process = FORK.Process(target=child, args=(store,))
        process.start()
        await asyncio.to_thread(waits.wait, 60)
        await append("p2")(store)
        return process

    process = run(path, parent)  # and closes
    go_on.set()
    process.join(60)
    assert process.exitcode == 0
    assert run(path, read_names) == ["p1", "c1", "p2", "c2"]


LAST_WORDS = """
import asyncio, sys
from ce_engine.stores.documents.file import FileStore
from ce_engine.stores.documents.redis import RedisStore
from ce_engine.stores.tables import SqlStore
from ce_engine.testing.samples import SCOPE, message
store = OPENING
async def main():
    await store.version(SCOPE)
    for n in range(100):
        asyncio.create_task(store.apply(SCOPE, message(f"m{n}")))
    await asyncio.sleep(0)
asyncio.run(main())
print("main is over", flush=True)
"""


def start(code: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code.replace("OPENING", opening(path))],
        cwd=path.parent,
        env={
            "PYTHONPATH": str(Path(database.__file__).parents[3]),
            "CE_SECRET": os.environ.get("CE_SECRET", ""),
        },
        stdout=subprocess.PIPE,
        text=True,
    )


def test_what_was_accepted_is_written_before_the_interpreter_exits(path: Path) -> None:
    with start(LAST_WORDS, path) as process:
        assert process.wait(60) == 0
    assert run(path, lambda store: store.version(SCOPE)) == (100, 0, 0)


def test_a_lock_does_not_keep_the_interpreter_from_exiting(tmp_path: Path) -> None:
    path = tmp_path / "ce.db"
    run(path, append("m1"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        impatient = "import ce_engine.stores.tables.store as s; s._LAST_WORDS_S = 0.3"
        with start(f"{impatient}\n{LAST_WORDS}", path) as process:
            assert process.wait(60) == 0


def store_threads() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name.startswith("ce-store-")}


async def test_a_store_that_nobody_holds_lets_go_of_its_threads(path: Path) -> None:
    before = store_threads()
    store = open_at(path)
    await append("m1")(store)
    await store.version(SCOPE)
    threads = store_threads() - before
    assert len(threads) >= 2
    del store
    for _ in range(60):  # what a worker held of its last task may be in a cycle
        gc.collect()
        for thread in threads:
            await asyncio.to_thread(thread.join, 0.5 if thread.is_alive() else 0)
        if not any(thread.is_alive() for thread in threads):
            return
    pytest.fail("its threads are there still")
