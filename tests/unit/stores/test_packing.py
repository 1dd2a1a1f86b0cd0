"""The small forms of the SQL store: every text and every datum comes back, and an older file is brought to them."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, select

from ce_engine import (
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    Retrieval,
    RetrievedDoc,
    Scope,
    SourceKind,
    ToolRun,
    create_context_engine,
)
from ce_engine.schema.ids import session_key
from ce_engine.stores.codec import escape, from_json, to_json
from ce_engine.stores.tables import SqlStore, tables
from ce_engine.stores.tables.migrations import upgrade as alembic_upgrade
from ce_engine.stores.tables.packing import lengthen, pack, shorten, unpack
from ce_engine.testing.host import HostApp
from tests.unit.stores.older import link_as_older


MACS = ("macs", "macs_mac", "head_mac")
UUIDS = st.uuids().map(str)
HEX = st.binary(min_size=16, max_size=16).map(bytes.hex)
LOOKALIKES = st.sampled_from(
    [
        *("2026-02-30T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        *("0001-01-01T00:00:00.000Z", "2026-01-01T00:00:00.00０Z", "2026-01-01T00:00:00.000Z"),
        *("０" * 32, "A" * 32, "DEA42A90-AA6F-4AA1", "dea42a90-aa6f-4aa1", "ab " * 12, "a b" * 12),
        *("c1:" + "0" * 40, "c1:" + " " * 40, "", "=", "u", "langchain", "\x01", "\x03 ", "\ud800"),
        *("{0}{0}".format("0" * 8 + "-0000-0000-0000-" + "0" * 12), "tool", "final"),
    ]
)
TEXTS = st.one_of(st.text(), UUIDS, HEX, LOOKALIKES, st.datetimes().map(lambda at: f"{at}Z"))
DATA = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(TEXTS, inner)),
)


@given(TEXTS)
def test_every_text_comes_back(text: str) -> None:
    assert lengthen(shorten(text)) == text


@given(DATA)
def test_all_data_comes_back(data: Any) -> None:
    assert unpack(pack(data)) == json.loads(json.dumps(data))


@pytest.mark.parametrize("count", [200, 70_000])
def test_many_ids_come_back_and_repeated_ones_cost_little(count: int) -> None:
    ids = [str(UUID(int=n << 64 | n)) for n in range(count)]
    once = pack(ids)
    assert unpack(once) == ids
    again = pack(ids + ids[:90])
    assert unpack(again) == ids + ids[:90]
    assert len(again) - len(once) < 90 * 5


def test_known_forms_are_small() -> None:
    name = str(UUID(int=1 << 100))
    sizes = [len(shorten(t)) for t in (name, "2026-11-22T10:14:27.957Z", "c1:" + "a" * 40, "user")]
    assert sizes == [17, 7, 21, 2]


def test_what_somebody_else_wrote_is_read_as_it_stands() -> None:
    assert [lengthen(data) for data in ("2020", b"garbage", b"", b"t", b"w\xff")] == [
        *("2020", "garbage", "", "1970-01-01T00:00:00.000Z", "w\ufffd"),
    ]
    assert unpack('{"x":1}') == {"x": 1}
    for garbage in (b"", b"\xff\xff", b"\x00\x00garbage", b"\x00\x01", pack({"a": 1})[:-3]):
        with pytest.raises(ValueError, match=r"packed|JSON|Expecting|Unterminated"):
            unpack(garbage)


def test_marks_of_ids_that_are_not_there_are_no_data() -> None:
    name = str(UUID(int=7))
    for data in (pack([name]), pack([name, name]), pack([UUID(int=7).hex])):
        assert unpack(data)
        with pytest.raises(ValueError, match="no packed data"):
            unpack(b"\0\0" + data[18:])


@pytest.mark.parametrize(
    "data",
    ["\ud800", {"\ud800": 1}, 10**300, -(2**64), 0.1, 1e-320, -0.0, "\0\x7f\u2028", {"": {}}],
)
def test_rare_data_are_read_as_json_has_them(data: Any) -> None:
    found = from_json(to_json(data))
    assert repr(found) == repr(data)
    deep = [data]
    for _ in range(300):
        deep = [deep]
    assert from_json(to_json(deep)) == deep


# An older file

SCOPE = Scope(session_id="s", user_id="u")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    made = engine_at(tmp_path)
    yield made
    made.sync.close()


def engine_at(folder: Path) -> ContextEngine:
    return create_context_engine(f"sqlite:///{folder / 'ce.db'}")


def busy(engine: ContextEngine) -> HostApp:
    """Messages, a tool's run, a retrieval, evidence by hand, and text that databases refuse."""
    app = HostApp(engine, SCOPE, framework="by-hand")
    app.ask("one?\x00 \ud83d", "1")
    run = ToolRun(run_id="r0", name="weather", args={"city": "奥斯陆"}, result="3°")
    engine.post_tool_run(SCOPE, run, request_id="request-1")
    hit = Retrieval(run_id="r1", name="kb", query="Oslo", documents=[RetrievedDoc(text="Cold.")])
    engine.post_retrieval(SCOPE, hit, request_id="request-1")
    source = EvidenceSource(kind=SourceKind.RAG, name="file")
    engine.sync.record_evidence(SCOPE, "a text", source, EvidenceType.RAG_DOC)
    app.ask("two?", "2")
    assert engine.sync.flush()
    return app


def everything(engine: ContextEngine) -> list[Any]:
    store, run = engine.store, engine.loop.run
    state = run(store.state(SCOPE))
    assert state is not None
    events = [
        event.model_copy(update={"payload_mac": "", "hash": ""})
        for event in run(store.list_events(SCOPE))
    ]
    return [
        run(store.get_session(SCOPE)),
        run(store.list_turns(SCOPE)),
        events,
        replace(state, head=replace(state.head, chain_head="")),
    ]


def make_older(new: Path, old: Path) -> None:
    """Write what the file `new` holds as the release of revision 0003 wrote it."""
    store = SqlStore(f"sqlite:///{new}")
    chain = asyncio.run(store.chain(SCOPE))
    assert chain is not None
    made = create_engine(f"sqlite:///{old}")
    with made.begin() as connection:
        alembic_upgrade.upgrade(connection, "0003")
    made.dispose()
    source = create_engine(f"sqlite:///{new}")
    with source.connect() as connection, closing(sqlite3.connect(old)) as target, target:
        for table in set(tables.metadata.tables.values()) - {tables.revisions}:
            names = [column for column in table.c if column.name not in MACS]
            for row in connection.execute(select(*names)).mappings():
                values = [_older(value) for value in row.values()]
                places = ", ".join("?" * len(values))
                target.execute(
                    f"INSERT INTO {table} ({', '.join(map(str, row))}) VALUES ({places})", values
                )
        key = session_key(store.secret, chain.head.salt, SCOPE)
        link_as_older(target, chain.events, store.secret, key, str)
    source.dispose()


def _older(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    return to_json(value) if isinstance(value, dict | list) else value


def test_a_file_of_an_older_release_says_the_same_and_goes_on(
    engine: ContextEngine, tmp_path: Path
) -> None:
    busy(engine)
    expected = everything(engine)
    engine.sync.close()
    folder = tmp_path / "older"
    folder.mkdir()
    make_older(tmp_path / "ce.db", folder / "ce.db")
    for key in tmp_path.glob("*key*"):
        shutil.copy(key, folder)
    before = (folder / "ce.db").read_bytes()
    assert expected[1][0].turn_id.encode() in before
    older = engine_at(folder)
    assert everything(older) == expected
    found = older.sync.verify(SCOPE)
    assert (found.status, found.tampered_seq, found.rows) == ("unverified", None, 0)
    busy(older)
    found = older.sync.verify(SCOPE)
    assert (found.status, found.tampered_seq, found.wrong) == ("unverified", None, ())
    assert found.rows > 0
    assert len(everything(older)[1]) == len(expected[1]) + 2
    HostApp(older, SCOPE).ask("something new?", "yes")
    older.sync.flush()
    for where, status in (
        ("seq = 1", "unverified"),
        ("seq = (SELECT max(seq) FROM ce_messages)", "tampered"),
    ):
        with closing(sqlite3.connect(folder / "ce.db")) as connection, connection:
            done = connection.execute(f"UPDATE ce_messages SET content = 'forged' WHERE {where}")
            assert done.rowcount == 1
        assert older.sync.verify(SCOPE).status == status
    older.sync.close()
