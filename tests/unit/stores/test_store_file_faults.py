"""Real faults on the files of a store: each is told with its cure, harms nothing, and ends with its cause."""
# ruff: noqa: ASYNC240 - these tests break files, and nobody else waits on their loop

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from ce_engine.errors import MigrationError, StoreUnavailableError
from ce_engine.schema.document import Task
from ce_engine.schema.rows import AppendMessages
from ce_engine.schema.settings import Versions
from ce_engine.stores.documents.file import FileStore
from ce_engine.stores.documents.file.shelf import MARK
from ce_engine.testing.samples import SCOPE, bare_row, message
from ce_engine.testing.store_reading import read_document, read_names
from tests.hosts.file_host import IN_TIME_S, OTHER, files, left_out, of_session, open_at, refused
from tests.hosts.store_host import nobody, public_folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "sessions"


@pytest.fixture
async def store(root: Path) -> AsyncIterator[FileStore]:
    store = open_at(root)
    yield store
    await store.close()


@contextmanager
def lock(root: Path) -> Iterator[None]:
    with (of_session(root) / "lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        yield


async def test_locked_by_another_program(store: FileStore, root: Path) -> None:
    await store.apply(SCOPE, message("m1"))
    with lock(root):
        await refused(store, "is locked by another program", reads=False, listing=False)
        assert await read_names(store) == ["m1"]
        await store.apply(OTHER, message("m1"))
    await store.apply(SCOPE, message("m2"))
    assert await read_names(store) == ["m1", "m2"]


async def test_a_queue_behind_a_lock_does_not_add_up(store: FileStore, root: Path) -> None:
    await store.apply(SCOPE, message("m1"))
    failed = 0

    async def append(name: str) -> None:
        nonlocal failed
        try:
            await store.apply(SCOPE, message(name))
        except StoreUnavailableError:
            failed += 1

    with lock(root), anyio.fail_after(IN_TIME_S):  # 400 waits one after the other are 20 s
        async with anyio.create_task_group() as tasks:
            for n in range(400):
                tasks.start_soon(append, f"q{n}")
    assert failed == 400
    assert await read_names(store) == ["m1"]


async def test_a_short_lock_is_waited_for(root: Path) -> None:
    store = FileStore(root.as_uri(), lock_timeout_s=30)
    await store.apply(SCOPE, message("m1"))
    async with anyio.create_task_group() as tasks:
        with lock(root):
            tasks.start_soon(store.apply, SCOPE, message("m2"))
            await anyio.sleep(0.05)
            assert await store.version(SCOPE) == (1, 0, 0)
    assert await read_names(store) == ["m1", "m2"]
    await store.close()


async def test_a_file_in_the_place_of_the_folder(store: FileStore, root: Path) -> None:
    root.write_text("a letter")
    await refused(store, "is no folder")
    assert root.read_text() == "a letter"
    root.unlink()
    await store.apply(SCOPE, message("m1"))
    assert await read_names(store) == ["m1"]


async def test_a_place_that_is_not_there(store: FileStore, root: Path) -> None:
    root.parent.rmdir()
    await refused(store, f"does not exist. Create {str(root.parent)!r}")
    assert not root.parent.exists()
    root.parent.touch()
    await refused(store, "is no folder")
    root.parent.unlink()
    root.parent.mkdir()
    await store.check()
    await store.apply(SCOPE, message("m1"))


async def test_a_folder_of_somebody_else(store: FileStore, root: Path) -> None:
    root.mkdir()
    (root / "recipes.txt").write_text("salt")
    await refused(store, "holds other files (recipes.txt). It was left", reads=False, listing=False)
    with pytest.raises(StoreUnavailableError, match="holds other files"):
        await store.check()
    assert [path.name for path in root.iterdir()] == ["recipes.txt"]


async def test_a_mark_that_was_taken_away_loses_no_session(store: FileStore, root: Path) -> None:
    await store.apply(SCOPE, message("m1"))
    (root / MARK).unlink()
    await store.apply(OTHER, message("m2"))
    assert await read_names(store, OTHER) == ["m2"]
    assert (root / MARK).exists()
    await store.check()


async def test_deleted_while_open(store: FileStore, root: Path) -> None:
    for part in (of_session(root), root):
        for n in range(3):
            await store.apply(SCOPE, message(f"old{n}"))
        shutil.rmtree(part)
        assert await store.version(SCOPE) == Versions()
        await store.apply(SCOPE, message("new"))
        assert await read_names(store) == ["new"]
        shutil.rmtree(part)


async def test_deleted_while_a_write_waits_for_it(root: Path) -> None:
    store = FileStore(root.as_uri(), lock_timeout_s=30)
    await store.apply(SCOPE, message("old"))
    async with anyio.create_task_group() as tasks:
        with lock(root):
            tasks.start_soon(store.apply, SCOPE, message("new"))
            await anyio.sleep(0.05)
            shutil.rmtree(of_session(root))
    assert await read_names(store) == ["new"]
    await store.close()


async def test_a_backup_put_in_its_place(store: FileStore, root: Path, tmp_path: Path) -> None:
    await store.apply(SCOPE, message("m1"))
    shutil.copytree(root, tmp_path / "backup")
    await store.apply(SCOPE, message("m2"))
    assert await store.version(SCOPE) == (2, 0, 0)
    shutil.rmtree(root)
    (tmp_path / "backup").rename(root)
    assert await read_names(store) == ["m1"]
    await store.apply(SCOPE, message("m3"))
    assert await read_names(store) == ["m1", "m3"]


async def test_a_format_of_a_newer_release(store: FileStore, root: Path) -> None:
    await store.apply(SCOPE, message("m1"))
    path = of_session(root) / "session.json"
    path.write_text(path.read_text("utf-8").replace('"format": 2', '"format": 3'), "utf-8")
    before = files(root)
    for call in (store.version(SCOPE), store.apply(SCOPE, message("m2"))):
        with pytest.raises(MigrationError, match=r"format 3; this release knows 2\. It was left"):
            await call
    assert files(root) == before


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let files grow to so many bytes only: the system itself refuses more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_full_disk(store: FileStore, root: Path) -> None:
    await store.apply(SCOPE, message("m1"))
    big = AppendMessages([bare_row("big", "x" * 30_000)])
    with full_disk(10_000):
        for scope in (SCOPE, OTHER, SCOPE):
            with pytest.raises(StoreUnavailableError, match=r"the disk is full\. Free some space"):
                await store.apply(scope, [big])
        assert await read_names(store) == ["m1"]
        await store.apply(SCOPE, message("m2"))  # what is small still fits
        assert await store.version(OTHER) == Versions()
    await store.apply(SCOPE, [big])
    fresh = open_at(root)
    for one in (store, fresh):
        assert await read_names(one) == ["m1", "m2", "big"]
    await fresh.close()
    assert not list(root.rglob("*.new"))


@pytest.fixture
def public() -> Iterator[Path]:
    with public_folder() as folder:
        yield folder


async def test_files_that_may_only_be_read(public: Path) -> None:
    root = public / "sessions"
    store = open_at(root)
    await store.apply(SCOPE, message("m1"))
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    with nobody():
        await refused(store, "Give this user read and write permission", reads=False, listing=False)
        with pytest.raises(StoreUnavailableError, match="permission"):
            await store.apply(OTHER, message("m1"))
        with pytest.raises(StoreUnavailableError, match="permission"):
            await store.check()
        assert await read_names(store) == ["m1"]
    for path in [root, *root.rglob("*")]:
        path.chmod(0o777)
    with nobody():
        await store.apply(SCOPE, message("m2"))
        assert await read_names(store) == ["m1", "m2"]
        await store.close()


async def test_files_that_may_not_even_be_read(public: Path) -> None:
    root = public / "sessions"
    store = open_at(root)
    await store.apply(SCOPE, message("m1"))
    root.chmod(0o000)
    with nobody():
        await refused(store, "may not be read or written by this user")
    root.chmod(0o700)
    assert await read_names(store) == ["m1"]
    await store.close()


async def test_a_key_file_that_cannot_be_made(public: Path) -> None:
    root = public / "sessions"
    root.mkdir()
    root.chmod(0o777)
    public.chmod(0o555)
    store = open_at(root)
    with nobody(), pytest.raises(StoreUnavailableError, match=r"sessions\.key.*set CE_SECRET"):
        await store.apply(SCOPE, message("m1"))
    public.chmod(0o777)
    await store.apply(SCOPE, message("m1"))
    await store.close()


async def test_a_disk_that_hangs_holds_up_nobodys_loop(
    store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for scope in (SCOPE, OTHER):
        await store.apply(scope, message("m1"))
    fresh, disk, open_now = open_at(root), threading.Event(), os.open
    hung = str(of_session(root, OTHER) / "session.json")

    def open_late(path: str, *more: int) -> int:
        if path == hung:
            disk.wait(IN_TIME_S)
        return open_now(path, *more)

    monkeypatch.setattr(os, "open", open_late)
    waiting = asyncio.create_task(fresh.version(OTHER))
    assert await read_names(fresh) == ["m1"]
    assert not waiting.done()
    disk.set()
    assert await waiting == (1, 0, 0)
    await fresh.close()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "a letter": lambda _: "我的信\n".encode(),
    "not text": lambda _: b"\xff\xfe\x00",
    "a list": lambda _: b"[]",
    "nothing in it": lambda _: b"{}",
    "half of it": lambda text: text[: len(text) // 2],
    "no head": lambda text: text.replace(b'"head"', b'"heads"'),
    "no such role": lambda text: text.replace(b'"role":"assistant"', b'"role":"open sesame"'),
    "no number": lambda text: text.replace(b'"version":1', b'"version":"open sesame"'),
    "no digits": lambda text: text.replace(b'"salt":"', b'"salt":"open sesame'),
    "no list": lambda text: text.replace(b'"messages": [', b'"messages": 7, "x": ['),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_snapshot(
    store: FileStore, root: Path, damage: Callable[[bytes], bytes]
) -> None:
    await store.apply(SCOPE, message("m1"))
    await store.apply(OTHER, message("m1"))
    path = of_session(root) / "session.json"
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    before = files(root)
    assert before[path] != whole
    await refused(store, "is damaged", listing=False)
    await left_out(store, "is damaged")
    with pytest.raises(StoreUnavailableError, match="It was left as it is: restore") as error:
        await store.version(SCOPE)
    assert "sesame" not in str(error.value)
    assert files(root) == before
    assert await read_names(store, OTHER) == ["m1"]
    path.write_bytes(whole)
    assert await read_names(store) == ["m1"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda lines: [lines[0], b'{"head": 7}', *lines[2:]], "after version 2: TypeError"),
        (lambda lines: [lines[0], b"open sesame", *lines[2:]], "after version 2: Expecting value"),
        (lambda lines: [lines[0], *lines[2:]], "version 4 follows version 2"),
        (lambda lines: lines[1:], "version 3 follows version 1"),
    ],
)
async def test_a_damaged_journal(
    root: Path, store: FileStore, damage: Callable[[list[bytes]], list[bytes]], words: str
) -> None:
    for n in range(5):
        await store.apply(SCOPE, message(f"m{n}"))
    path = of_session(root) / "journal.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"\n".join(damage(whole.split(b"\n"))))
    before = files(root)
    fresh = open_at(root)
    await refused(fresh, f"journal.jsonl' is damaged ({words}", listing=False)
    await left_out(fresh, f"journal.jsonl' is damaged ({words}")
    await fresh.close()
    assert files(root) == before
    path.write_bytes(whole)
    assert await read_names(store) == [f"m{n}" for n in range(5)]


async def test_a_snapshot_gone_from_beside_its_journal(store: FileStore, root: Path) -> None:
    for name in ("m1", "m2"):
        await store.apply(SCOPE, message(name))
    (of_session(root) / "session.json").unlink()
    before = files(root)
    await refused(store, "it is gone, and its journal is there", listing=False)
    await left_out(store, "it is gone, and its journal is there")
    assert files(root) == before


async def bytes_that_do_not_count(store: FileStore) -> list[str]:
    """How many of the journal's bytes are named so; all else is as it was written."""
    found = await store.check_content(SCOPE)
    assert found is not None
    assert (found.wrong, found.unverified) == ((), ())
    assert all("do not count" in each for each in found.uncounted)
    return [" ".join(each.split()[:2]) for each in found.uncounted]


async def test_a_torn_line_was_never_answered(store: FileStore, root: Path) -> None:
    for name in ("m1", "m2", "文"):
        await store.apply(SCOPE, message(name))
    path = of_session(root) / "journal.jsonl"
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for end in range(second, len(whole), 7):
        path.write_bytes(whole[:end])
        fresh = open_at(root)
        assert await read_names(fresh) == ["m1", "m2"]
        assert await fresh.version(SCOPE) == (2, 0, 0)
        rest = end - second
        assert await bytes_that_do_not_count(fresh) == ([f"{rest} bytes"] if rest else [])
        await fresh.close()
    await store.apply(SCOPE, message("next"))
    await store.upsert_tasks(SCOPE, [Task(task_id="k1", name="do")])
    fresh = open_at(root)
    assert await read_names(fresh) == ["m1", "m2", "next"]
    assert len((await read_document(fresh)).session.task_state.todo_list.tasks) == 1
    await fresh.close()


async def test_killed_between_snapshot_and_journal(store: FileStore, root: Path) -> None:
    for name in ("m1", "m2", "m3"):
        await store.apply(SCOPE, message(name))
    path = of_session(root) / "journal.jsonl"
    lines = path.read_bytes()
    await store.close()  # replaces the snapshot, then empties the journal
    path.write_bytes(lines)
    again = open_at(root)
    assert await read_names(again) == ["m1", "m2", "m3"]
    assert await bytes_that_do_not_count(again) == [f"{len(lines)} bytes"]
    await again.apply(SCOPE, message("m4"))
    fresh = open_at(root)
    for one in (again, fresh):
        assert await read_names(one) == ["m1", "m2", "m3", "m4"]
        await one.close()
    assert await bytes_that_do_not_count(open_at(root)) == []


async def test_what_is_being_written_is_no_rest_of_a_killed_writer(
    store: FileStore, root: Path
) -> None:
    """The journal of before is there for a moment with the snapshot that follows it: who verifies waits."""
    await store.apply(SCOPE, message("m0"))
    await store.apply(SCOPE, message("m1"))
    path = of_session(root) / "journal.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole)
    looking = asyncio.create_task(bytes_that_do_not_count(store))
    await asyncio.sleep(0.05)
    assert not looking.done()
    path.write_bytes(whole)
    assert await looking == []
