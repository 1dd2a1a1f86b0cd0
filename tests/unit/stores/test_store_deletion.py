"""What was deleted leaves the SQLite file: on every build, after a crash, beside others who read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine.errors import StoreUnavailableError
from ce_engine.ports.store import Store
from ce_engine.schema.document import EvidenceLinks
from ce_engine.schema.rows import AppendMessages, DeleteSession, LinkEvidence, PutEvidence
from ce_engine.stores.tables import sqlite as database
from ce_engine.stores.tables import store as sql_store
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE, message
from ce_engine.testing.store_deletion import CANARY, OTHER, deletion, everything
from ce_engine.testing.store_reading import read_names
from tests.hosts.store_host import run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ce.db"


def has_canary(path: Path) -> bool:
    files = path.parent.glob(f"{path.name}*")
    return any(CANARY.encode() in file.read_bytes() for file in files)


async def fill(store: Store) -> None:
    await store.apply(OTHER, message("m1"))
    await store.apply(SCOPE, everything(CANARY))
    for n in range(50):  # rows that grow leave their old copies behind
        text = f"{n} {CANARY} " * 100
        rows = [samples.bare_row(f"l{n}", text)]
        await store.apply(
            SCOPE, [AppendMessages(rows), PutEvidence(samples.evidence_row(f"e{n}", text))]
        )
        link = LinkEvidence(f"e{n}", EvidenceLinks(model_usage_id=text))
        await store.apply(SCOPE, [link])


async def delete(store: Store) -> None:
    await store.apply(SCOPE, [DeleteSession(deletion(store))])


@pytest.mark.req("A-30")
def test_builds_that_leave_deleted_bytes_in_place_leave_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless = (*database._PRAGMAS, "PRAGMA secure_delete = OFF")
    monkeypatch.setattr(database, "_PRAGMAS", careless)
    run(path, fill)
    run(path, delete)
    assert has_canary(path)
    run(path, lambda store: store.purge())
    assert not has_canary(path)
    assert run(path, lambda store: read_names(store, OTHER)) == ["m1"]


@pytest.mark.req("A-30")
def test_a_purge_that_did_not_end_is_made_by_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_store, "_PURGE_S", 0.1)
    run(path, fill)

    async def work(_: Store) -> None:
        store = sql_store.SqlStore(f"sqlite:///{path}", lock_timeout_s=0.1)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM ce_messages").fetchone()
            await delete(store)
            with pytest.raises(StoreUnavailableError, match="locked"):
                await store.purge()
            assert has_canary(path)
        await store.purge()
        assert not has_canary(path)
        await store.close()

    run(path, work)


def test_a_purge_makes_no_file(path: Path) -> None:
    run(path, lambda store: store.purge())
    assert not path.exists()


def test_without_a_deletion_a_purge_costs_nothing(path: Path) -> None:
    run(path, fill)
    before = path.read_bytes()
    run(path, lambda store: store.purge())
    assert path.read_bytes() == before
