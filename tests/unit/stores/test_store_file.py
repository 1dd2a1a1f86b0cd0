"""The file store's own promises: readable files, safe names, real faults told with their cure."""
# ruff: noqa: ASYNC240 - these tests break files, and nobody else waits on their loop

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Versions
from ce_engine.stores.documents.file import FileStore, log, shelf
from ce_engine.stores.documents.file.names import safe
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE, message
from ce_engine.testing.store_reading import read_names
from tests.hosts.file_host import OTHER, files, left_out, of_session, open_at, refused


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


# What lies there


@pytest.mark.req("A-07")
async def test_a_person_can_read_the_files(store: FileStore, root: Path) -> None:
    await store.put_session(SCOPE, samples.document())
    await store.apply(SCOPE, message("m9"))
    folder = of_session(root)
    assert folder.parent.parent.parent == root
    assert folder.name.startswith("s-")
    (line,) = (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["messages"][0]["message"]["content"] == "hello"
    assert set(json.loads(line)) >= {"head", "messages"}
    assert "summary" not in json.loads(line)
    await store.close()
    text = (folder / "session.json").read_text(encoding="utf-8")
    found = json.loads(text)
    assert [found[name] for name in ("account_id", "user_id", "session_id")] == ["a", "u", "s"]
    contents = [row["message"]["content"] for row in found["messages"]]
    assert contents == ["你好 👋", "hello", "hello"]
    assert '"summary": {"content":"要点"' in text
    assert (folder / "journal.jsonl").read_bytes() == b""
    again = open_at(root)
    assert await read_names(again) == ["m1", "m2", "m9"]
    await again.close()


async def test_who_only_reads_leaves_no_trace(store: FileStore, root: Path) -> None:
    for name in ("m1", "m2"):
        await store.apply(SCOPE, message(name))
    before = files(root)
    reader = open_at(root)
    assert await read_names(reader) == ["m1", "m2"]
    assert await reader.version(OTHER) == Versions()
    await reader.apply(OTHER, [])
    await reader.close()
    assert files(root) == before


async def test_a_journal_that_has_grown_becomes_a_snapshot(
    store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "JOURNAL_BYTES", 5000)
    journal, snapshot = of_session(root) / "journal.jsonl", of_session(root) / "session.json"
    for n in range(100):
        await store.apply(SCOPE, message(f"m{n}"))
        assert not journal.exists() or journal.stat().st_size <= max(5000, snapshot.stat().st_size)
    assert snapshot.stat().st_size > 5000
    fresh = open_at(root)
    assert await read_names(fresh) == [f"m{n}" for n in range(100)]
    await fresh.close()


async def test_few_sessions_stay_in_memory(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "_KEPT_SESSIONS", 3)
    scopes = [Scope(session_id=f"s{n}") for n in range(9)]
    for name in ("m1", "m2"):
        for scope in scopes:
            await store.apply(scope, message(name))
    assert len(store._shelf._cache) <= 3
    for scope in scopes:
        assert await read_names(store, scope) == ["m1", "m2"]


async def test_two_stores_see_what_the_other_writes(store: FileStore, root: Path) -> None:
    other = open_at(root)
    for n in range(10):
        await (store, other)[n % 2].apply(SCOPE, message(f"m{n}"))
        for one in (store, other):
            assert await one.version(SCOPE) == (n + 1, 0, 0)
    await other.patch_session(SCOPE, {"model_usage": []})
    await other.close()  # which replaces the snapshot
    assert await store.version(SCOPE) == (11, 1, 0)
    assert await read_names(store) == [f"m{n}" for n in range(10)]


# Ids


HOSTILE = [
    "..",
    "../..",
    "../../etc/passwd",
    "/etc/passwd",
    "C:\\Windows",
    "\x00",
    "a\x00b",
    "CON",
    "nul.txt",
    "a" * 511,
    "a" * 512,
    "文" * 170,
    "会话",
    "Case",
    "case",
    "CASE",
    "e\u0301",
    "\u00e9",
    ".",
    " ",
    "a ",
    "a.",
    "session.json",
    "lock\n",
    "%2e%2e",
]


@pytest.mark.req("B-03")
async def test_hostile_ids_stay_inside_and_apart(store: FileStore, root: Path) -> None:
    scopes = [Scope(session_id=name, user_id="u", account_id="a") for name in HOSTILE]
    scopes += [Scope(session_id="s", user_id=name, account_id="a") for name in HOSTILE]
    scopes += [Scope(session_id="s", user_id="u", account_id=name) for name in HOSTILE]
    for n, scope in enumerate(scopes):
        assert await store.version(scope) == Versions()
        await store.apply(scope, message(f"m{n}"))
    for n, scope in enumerate(scopes):
        assert await read_names(store, scope) == [f"m{n}"]
    found = list(root.rglob("session.json"))
    assert len(found) == len(scopes)
    assert len({str(path).casefold() for path in found}) == len(scopes)
    assert sorted(path.name for path in root.parent.iterdir()) == ["sessions", "sessions.key"]
    listed = await store.list_sessions(account_id="a", user_id=None)
    assert sorted(info.session_id for info in listed) == sorted([*HOSTILE, *"s" * len(HOSTILE)])


@given(st.text())
def test_a_name_is_safe_for_every_id(text: str) -> None:
    name = safe(text)
    assert 20 <= len(name) <= 45
    assert len(name.encode()) <= 255 - len(".new")
    assert not set(name) & set('/\\:*?"<>|. \x00\n')
    assert not name.startswith("-")


def test_a_name_never_changes() -> None:
    assert safe("") == "b56c67461ca726b7524e"
    assert safe("会话 1/2") == "会话-1-2-7054e7b2aee4251a0a1d"


async def test_a_folder_that_was_put_in_anothers_place(store: FileStore, root: Path) -> None:
    await store.apply(SCOPE, message("m1"))
    await store.apply(OTHER, message("secret"))
    shutil.rmtree(of_session(root))
    shutil.copytree(of_session(root, OTHER), of_session(root))
    before = files(root)
    await refused(store, "is damaged (it is of another session)", listing=False)
    await left_out(store, "it is of another session")
    assert files(root) == before
