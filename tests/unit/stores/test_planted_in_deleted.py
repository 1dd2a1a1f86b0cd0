"""Whoever can write to a store, and has not its secret, plants nothing in a session that was deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, insert, select
from sqlalchemy.engine import make_url

from ce_engine import (
    ContextEngine,
    Message,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    Verification,
    create_context_engine,
)
from ce_engine.stores.documents.redis import RedisStore
from ce_engine.stores.documents.redis.server_url import place_of
from ce_engine.stores.tables import tables
from ce_engine.stores.tables.statements import CLEAR
from tests.hosts import redis_host
from tests.hosts.redis_host import client_of
from tests.postgres_server import IS_THERE, new_schema


SCOPE = Scope(session_id="s", user_id="u")
PLANTED = "a refund of 999 euro was promised"
QUESTION = "what of my refund?"
_MAC = 32


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")


@pytest.fixture
def url() -> Iterator[str]:
    made = redis_host.fresh_url()
    yield made
    redis_host.forget(made)


def opened(url: str) -> ContextEngine:
    """An app's process, which waits as long as a busy machine takes."""
    config = RuntimeConfig(history="session", fail="closed", store=StoreConfig(deadline_s=30))
    is_redis = url.startswith("redis")
    return create_context_engine(RedisStore(url, timeout_s=20) if is_redis else url, config=config)


def turn(engine: ContextEngine, question: str, answer: str) -> str:
    """A turn of the app, which has no history of its own; all that goes out."""
    asked = [Message(role=Role.SYSTEM, content="SYS"), Message(role=Role.USER, content=question)]
    prepared = engine.sync.prepare_turn(SCOPE, asked)
    engine.sync.commit_assistant_message(SCOPE, Message(role=Role.ASSISTANT, content=answer))
    assert engine.sync.flush(20)
    return "\n".join(part.content for part in prepared.assembled_input.parts)


def two_turns(engine: ContextEngine) -> None:
    turn(engine, "the invoice is 100 euro", "noted")
    turn(engine, "and the refund?", "no refund")


def texts_of(url: str) -> list[bytes]:
    with client_of(url) as client:
        return [bytes(text) for text in client.lrange(place_of(url).session(SCOPE.key), 0, -1)]


def plant(url: str, before: list[bytes], version: int | None) -> None:
    """Put messages like those of `before` into the deleted session's page, under another stamp."""
    lines = [json.loads(text[_MAC:]) for text in before[1:]]
    messages = json.dumps([each for line in lines for each in line.get("messages", [])])
    stamp, page, *rest = texts_of(url)
    record = json.loads(page[_MAC:])
    record["messages"] = json.loads(messages.replace("no refund", PLANTED))
    record["head"]["last_seq"] = len(record["messages"])
    page_name, _, *numbers = stamp.decode().split(" ")
    if version is not None:
        record["head"]["version"] = version
        numbers[1] = str(version)
    name = place_of(url).session(SCOPE.key)
    with client_of(url) as client:
        client.delete(name)
        new = " ".join([page_name, "0" * 16, *numbers]).encode()
        client.rpush(name, new, page[:_MAC] + json.dumps(record).encode(), *rest)


def contents(engine: ContextEngine) -> list[str]:
    document = engine.sync.get_session(SCOPE)
    assert document is not None
    return [message.content for message in document.session.messages]


def verified(url: str) -> Verification:
    engine = opened(url)
    found = engine.sync.verify(SCOPE)
    engine.sync.close()
    return found


@pytest.mark.parametrize("version", [None, 1], ids=["as it was", "an older version"])
@pytest.mark.parametrize("deletes", ["the app", "another process"])
@pytest.mark.parametrize("goes_on", ["the app", "a new process"])
@pytest.mark.req("B-01", "A-30")
def test_a_page_of_a_deleted_session_begins_no_life(
    url: str, deletes: str, goes_on: str, version: int | None
) -> None:
    app, other = opened(url), opened(url)
    two_turns(app)
    before = texts_of(url)
    assert (app if deletes == "the app" else other).sync.delete_session(SCOPE).messages == 4
    plant(url, before, version)
    going_on = app if goes_on == "the app" else opened(url)
    sent = turn(going_on, QUESTION, "let me look")
    assert PLANTED not in sent
    assert "100 euro" not in sent
    assert QUESTION in sent
    assert contents(going_on) == [QUESTION, "let me look"]
    found = verified(url)
    assert found.status == "tampered"
    assert "not what was written" in found.wrong[0]
    turn(going_on, "and now?", "still looking")
    assert verified(url).status == "tampered"
    for engine in {app, other, going_on}:
        engine.sync.close()


@pytest.mark.req("B-01", "A-30")
def test_what_was_planted_is_told_before_the_session_begins_again_and_leaves_the_server(
    url: str,
) -> None:
    """The app's process, which knew the session newer, writes what it finds anew: without what is planted."""
    app = opened(url)
    two_turns(app)
    before = texts_of(url)
    app.sync.delete_session(SCOPE)
    plant(url, before, None)
    assert app.sync.get_session(SCOPE) is None
    assert PLANTED.encode() not in b"".join(texts_of(url))
    assert verified(url).status == "tampered"
    app.sync.close()


@pytest.mark.req("B-01", "A-30")
def test_a_session_that_begins_again_unharmed_is_accused_of_nothing(url: str) -> None:
    app, other = opened(url), opened(url)
    two_turns(app)
    other.sync.delete_session(SCOPE)
    left = app.loop.run(app.store.chain(SCOPE))
    turn(app, QUESTION, "let me look")
    assert left is not None
    assert app.loop.run(app.store.version(SCOPE)).epoch == left.head.epoch
    assert contents(other) == [QUESTION, "let me look"]
    assert verified(url).status == "deleted"
    written = json.loads(texts_of(url)[-1][_MAC:])
    assert "restart" not in written  # a line tells what is new, not the old log once more
    for engine in (app, other):
        engine.sync.close()


def plant_in_files(root: Path, before: dict[str, Any]) -> None:
    """The same in a folder: messages as they were are put into the deleted session's snapshot."""
    [snapshot] = root.rglob("session.json")
    record = json.loads(snapshot.read_text(encoding="utf-8"))
    record["messages"] = json.loads(json.dumps(before["messages"]).replace("no refund", PLANTED))
    snapshot.write_text(json.dumps(record), encoding="utf-8")


@pytest.mark.req("B-01", "A-30")
def test_a_snapshot_of_a_deleted_session_begins_no_life(tmp_path: Path) -> None:
    url, root = f"file:{tmp_path / 'sessions'}", tmp_path / "sessions"
    app = opened(url)
    two_turns(app)
    app.sync.close()  # which brings the snapshot up to date
    [snapshot] = root.rglob("session.json")
    before = json.loads(snapshot.read_text(encoding="utf-8"))
    app = opened(url)
    app.sync.delete_session(SCOPE)
    plant_in_files(root, before)
    sent = turn(app, QUESTION, "let me look")
    assert PLANTED not in sent
    assert contents(app) == [QUESTION, "let me look"]
    app.sync.close()
    assert verified(url).status == "tampered"


@contextmanager
def tables_of(url: str) -> Iterator[Connection]:
    name = "sqlite" if url.startswith("sqlite") else "postgresql+psycopg"
    engine = create_engine(make_url(url).set(drivername=name))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def rows_of(url: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of sessions' content, by their tables."""
    with tables_of(url) as connection:
        return {
            table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in tables.metadata.sorted_tables
            if table in CLEAR
        }


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ce.db'}"
    elif not IS_THERE:
        pytest.skip("no PostgreSQL here")
    else:
        with new_schema() as url:
            yield url


@pytest.mark.parametrize("goes_on", ["the app", "a new process"])
@pytest.mark.req("B-01", "A-30")
def test_rows_of_a_deleted_session_begin_no_life(database: str, goes_on: str) -> None:
    app = opened(database)
    two_turns(app)
    before = rows_of(database)
    app.sync.delete_session(SCOPE)
    with tables_of(database) as connection:
        for table in tables.metadata.sorted_tables:
            for row in before.get(table.name, ()):
                connection.execute(insert(table), row)
    going_on = app if goes_on == "the app" else opened(database)
    sent = turn(going_on, QUESTION, "let me look")
    assert "100 euro" not in sent
    assert contents(going_on) == [QUESTION, "let me look"]
    name = tables.messages.name
    assert len(rows_of(database)[name]) < len(before[name])
    assert verified(database).status == "tampered"
    for engine in {app, going_on}:
        engine.sync.close()


@pytest.mark.req("B-01", "A-30")
def test_rows_that_begin_again_unharmed_are_accused_of_nothing(database: str) -> None:
    app = opened(database)
    two_turns(app)
    app.sync.delete_session(SCOPE)
    turn(app, QUESTION, "let me look")
    assert contents(app) == [QUESTION, "let me look"]
    assert verified(database).status == "deleted"
    app.sync.close()


@pytest.mark.req("B-01", "A-30")
def test_rows_under_the_number_of_a_session_to_come_are_in_none(tmp_path: Path) -> None:
    """SQLite asks for no session of a row, unless it is told to; the next session has the next number."""
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    app = opened(url)
    two_turns(app)
    with tables_of(url) as connection:
        for table in (each for each in tables.metadata.sorted_tables if each in CLEAR):
            for row in connection.execute(select(table)).mappings().all():
                number = {"id": row["id"] + 1000} if "id" in row else {}
                connection.execute(insert(table), {**row, **number, "session": row["session"] + 1})
    ours, victim = contents(app), Scope(session_id="t", user_id="v")
    asked = [Message(role=Role.USER, content=QUESTION)]
    prepared = app.sync.prepare_turn(victim, asked)
    app.sync.commit_assistant_message(victim, Message(role=Role.ASSISTANT, content="let me look"))
    assert app.sync.flush(20)
    document = app.sync.get_session(victim)
    assert "100 euro" not in str(prepared.assembled_input.parts)
    assert document is not None
    assert [message.content for message in document.session.messages] == [QUESTION, "let me look"]
    assert app.sync.verify(victim).status == "tampered"
    assert app.sync.verify(SCOPE).status == "intact"
    assert contents(app) == ours
    app.sync.close()
