"""A store's files are its user's alone, from their first byte, and never behind a symbolic link."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ce_engine.errors import StoreUnavailableError
from ce_engine.stores import open_store, secret
from ce_engine.testing.samples import SCOPE, message
from ce_engine.testing.store_reading import read_names


pytestmark = pytest.mark.skipif(os.name != "posix", reason="other systems have other permissions")

EVENTS: list[tuple[str, int]] | None = None
"""What Python tells of modes while a test listens: SQLite's opening of a file, and any change of one."""


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if EVENTS is not None and event == "sqlite3.connect":
        EVENTS.append((event, stat.S_IMODE(os.stat(args[0]).st_mode)))  # noqa: PTH116 - in an audit
    elif EVENTS is not None and event == "os.chmod":
        EVENTS.append((event, args[1]))


sys.addaudithook(_hear)


@pytest.fixture
def heard() -> Iterator[list[tuple[str, int]]]:
    global EVENTS  # noqa: PLW0603 - an audit hook stays for the process
    EVENTS = []
    yield EVENTS
    EVENTS = None


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture(params=["sqlite:///{}/ce.db", "file://{}/sessions"], ids=["sqlite", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o755)
    return str(request.param).format(tmp_path / "data")


def place(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///").removeprefix("file://"))


def modes(folder: Path) -> set[tuple[str, int]]:
    found = [(path, stat.S_IMODE(path.lstat().st_mode)) for path in folder.rglob("*")]
    return {("folder" if path.is_dir() else "file", mode) for path, mode in found}


async def work(url: str) -> list[str | None]:
    store = open_store(url)
    try:
        assert len(store.secret) == 32
        await store.check()
        for n in range(3):
            await store.apply(SCOPE, message(f"m{n}"))
        await store.put_setting(SCOPE, "tone", "平静")
        names = await read_names(store)
        assert modes(place(url).parent) <= {("file", 0o600), ("folder", 0o700)}  # as it is open
        await store.purge()
        return names
    finally:
        await store.close()


@pytest.mark.usefixtures("umask")
async def test_all_that_it_makes_is_private(url: str, heard: list[tuple[str, int]]) -> None:
    assert await work(url) == ["m0", "m1", "m2"]
    folder = place(url).parent
    assert modes(folder) <= {("file", 0o600), ("folder", 0o700)}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755  # what was there stays as it is
    assert set(heard) <= {
        ("sqlite3.connect", 0o600)
    }  # nothing was wider, and nothing made narrower


async def test_what_was_wider_stays_as_it_is(url: str) -> None:
    await work(url)
    own = place(url)
    own.chmod(0o755 if own.is_dir() else 0o644)
    store = open_store(url)
    await store.apply(SCOPE, message("m9"))
    await store.close()
    assert stat.S_IMODE(own.stat().st_mode) & 0o777 == (0o755 if own.is_dir() else 0o644)


def looked_at(path: Path) -> object:
    return sorted(each.name for each in path.iterdir()) if path.is_dir() else path.read_bytes()


async def refused(url: str, *saying: str) -> None:
    store = open_store(url)
    try:
        with pytest.raises(StoreUnavailableError) as error:
            await store.apply(SCOPE, message("m8"))
    finally:
        await store.close()
    for words in ("symbolic link", *saying):
        assert words in str(error.value)


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
async def test_a_link_in_a_database_s_place_is_not_followed(tmp_path: Path, end: str) -> None:
    victim, link = tmp_path / "victim", tmp_path / f"ce.db{end}"
    victim.write_bytes(b"")
    link.symlink_to(victim)
    await refused(f"sqlite:///{tmp_path}/ce.db", "Name the file itself" if not end else "delete")
    assert victim.read_bytes() == b""
    dangling = tmp_path / "other.db"
    dangling.symlink_to(tmp_path / "not there")
    await refused(f"sqlite:///{dangling}")
    assert not (tmp_path / "not there").exists()


@pytest.mark.parametrize("name", ["session.json", "journal.jsonl", "lock", "the folder", "a draft"])
async def test_a_link_in_a_folder_store_is_not_followed(tmp_path: Path, name: str) -> None:
    root, victim = tmp_path / "sessions", tmp_path / "victim"
    url = f"file://{root}"
    await work(url)
    (session,) = (
        each.parent for each in root.rglob("lock") if (each.parent / "session.json").exists()
    )
    if name != "the folder":
        victim.write_bytes(b"mine")
        own = session / ("session.json.new" if name == "a draft" else name)
        own.unlink(missing_ok=True)
    else:
        session.rename(victim)
        own = session
    own.symlink_to(victim)
    before = looked_at(victim)
    if name == "a draft":  # of nobody's: it is made anew
        store = open_store(url)
        await store.apply(SCOPE, message("m7"))
        await store.purge()
        await store.close()
    else:
        await refused(url, "Put the files themselves there")
    assert looked_at(victim) == before


async def test_a_folder_behind_a_link_is_the_user_s_own_business(url: str, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to(tmp_path / "data")
    linked = url.replace("/data/", "/here/")
    assert await work(linked) == ["m0", "m1", "m2"]
    if url.startswith("file:"):
        (tmp_path / "linked").symlink_to(place(url))
        store = open_store(f"file://{tmp_path}/linked")
        await store.apply(SCOPE, message("m9"))
        assert await read_names(store) == ["m0", "m1", "m2", "m9"]
        await store.close()


def test_a_link_in_a_key_s_place_is_not_followed(tmp_path: Path) -> None:
    secret.beside(tmp_path / "other.db")
    (tmp_path / "ce.db.key").symlink_to(tmp_path / "other.db.key")
    with pytest.raises(StoreUnavailableError, match=r"symbolic link.*itself there"):
        secret.beside(tmp_path / "ce.db")
    (tmp_path / "third.db.key").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreUnavailableError, match="symbolic link"):
        secret.beside(tmp_path / "third.db")
    assert not (tmp_path / "nowhere").exists()
