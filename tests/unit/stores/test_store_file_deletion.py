"""What was deleted leaves the file store's files: at once, and after a writer was killed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ce_engine.errors import StoreUnavailableError
from ce_engine.schema.rows import DeleteEvidence, DeleteSession, PutEvidence, Write
from ce_engine.stores.documents.file import FileStore, log
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE, message
from ce_engine.testing.store_deletion import CANARY, OTHER, check_log, deletion, everything
from ce_engine.testing.store_reading import read_names
from tests.hosts.file_host import files, of_session, open_at


ALONE = "字 of one piece of evidence alone"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
async def store(root: Path) -> AsyncIterator[FileStore]:
    store = open_at(root)
    create, *others = everything(CANARY)
    await store.apply(SCOPE, [create, *message("m0")])
    await store.apply(SCOPE, [*others, PutEvidence(samples.evidence_row("e9", ALONE))])
    yield store
    await store.close()


def has(root: Path, text: str) -> bool:
    return any(text.encode() in content for content in files(root).values())


def has_canary(root: Path) -> bool:
    return has(root, CANARY) or has(root, CANARY.encode().hex())


@pytest.mark.req("A-07", "A-30")
@pytest.mark.parametrize("what", ["session", "evidence"])
async def test_it_is_gone_with_the_write_that_deletes(
    store: FileStore, root: Path, what: str
) -> None:
    assert ALONE.encode() in (of_session(root) / log.JOURNAL).read_bytes()
    one: Write = DeleteSession(deletion(store))
    if what == "evidence":
        one = DeleteEvidence("e9", deletion(store, what="evidence", evidence_id="e9"))
    result = await store.apply(SCOPE, [one])
    assert result.removed["evidences"] == (3 if what == "session" else 1)
    assert (of_session(root) / log.JOURNAL).read_bytes() == b""
    assert not has(root, ALONE)
    assert has_canary(root) == (what == "evidence")  # of evidence, the rest of the session stays
    fresh = open_at(root)
    await check_log(fresh, "deleted")
    assert (await fresh.state(SCOPE) is None) == (what == "session")
    await fresh.close()


@pytest.mark.req("A-07", "A-30")
async def test_a_purge_ends_what_a_killed_writer_began(store: FileStore, root: Path) -> None:
    folder = of_session(root)
    old = {name: (folder / name).read_bytes() for name in (log.SNAPSHOT, log.JOURNAL)}
    await store.apply(OTHER, message("m1"))
    await store.apply(OTHER, message("m2"))
    await store.apply(SCOPE, [DeleteSession(deletion(store))])
    (folder / log.JOURNAL).write_bytes(old[log.JOURNAL])  # killed before it was emptied
    (folder / "session.json.new").write_bytes(old[log.SNAPSHOT] + old[log.JOURNAL])
    fresh = open_at(root)
    assert await fresh.state(SCOPE) is None
    assert has_canary(root)
    await fresh.purge()
    assert not has_canary(root)
    assert not (folder / "session.json.new").exists()
    left = files(root)
    await fresh.purge()
    assert files(root) == left
    assert (of_session(root, OTHER) / log.JOURNAL).read_bytes()
    await check_log(fresh, "deleted")
    assert await read_names(fresh, OTHER) == ["m1", "m2"]
    await fresh.close()


@pytest.mark.req("A-30")
async def test_a_journal_that_cannot_be_emptied_is_not_passed_over(
    store: FileStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object, length: int) -> None:
        raise PermissionError(13, "in use", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "truncate", refuse)
        await store.apply(SCOPE, [DeleteSession(deletion(store))])
        assert await store.state(SCOPE) is None
        with pytest.raises(StoreUnavailableError):
            await store.purge()
    assert has_canary(root)
    await store.purge()
    assert not has_canary(root)
    await store.apply(SCOPE, message("m9"))
    assert await read_names(store) == ["m9"]


async def test_without_a_folder_there_is_nothing_to_purge(root: Path) -> None:
    store = open_at(root)
    await store.purge()
    await store.close()
    assert files(root.parent) == {}
