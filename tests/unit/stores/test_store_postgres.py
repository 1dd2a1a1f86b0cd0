"""The contract of `ports.Store` over PostgreSQL."""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from time import sleep
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from ce_engine import (
    BudgetConfig,
    ContextBlock,
    ContextEngine,
    ContextEngineError,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    Task,
    create_context_engine,
)
from ce_engine.errors import (
    FileDamagedError,
    MigrationError,
    StoreUnavailableError,
    VersionConflictError,
)
from ce_engine.ports.store import Store
from ce_engine.schema.enums import BlockType, Priority
from ce_engine.schema.rows import AppendMessages
from ce_engine.schema.settings import Setting
from ce_engine.stores.tables import SqlStore, vacuuming
from ce_engine.testing import StoreContract
from ce_engine.testing.host import HostApp, assistant, user
from ce_engine.testing.samples import SCOPE, bare_row
from tests.hosts.store_host import FORK, append
from tests.postgres_server import IS_THERE, bytes_in, connected, new_database, new_schema, schema_of
from tests.postgres_traps import beside_traps


pytestmark = pytest.mark.skipif(not IS_THERE, reason="no PostgreSQL: see tests/postgres_server.py")


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CE_SECRET", "a secret that the hosts of these tests share")
    with new_schema() as made:
        yield beside_traps(made)


class TestPostgresStore(StoreContract):
    @pytest.fixture
    async def store(self, url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
        monkeypatch.setattr(vacuuming, "OLDER_S", 60.0)  # of other tests that use the server
        store = SqlStore(url, lock_timeout_s=20)
        yield store
        await store.close()

    def bytes_of(self, store: Store) -> bytes:
        assert isinstance(store, SqlStore)
        return bytes_in(store._url)


def _run(url: str, work: Callable[[Store], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        store = SqlStore(url, lock_timeout_s=30)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(main())


def _append_in_process(url: str, name: str, count: int) -> None:
    _run(url, append(*(f"{name}-{n}" for n in range(count))))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.req("A-07")
def test_processes_that_start_at_once_make_one_schema_and_lose_nothing(url: str) -> None:
    processes = [FORK.Process(target=_append_in_process, args=(url, f"p{n}", 25)) for n in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
    assert [process.exitcode for process in processes] == [0] * 8
    chain = _run(url, lambda store: store.chain(SCOPE))
    assert [event.seq for event in chain.events] == list(range(1, 201))
    state = _run(url, lambda store: store.state(SCOPE))
    names = [row.message.message_id for row in state.rows]
    assert sorted(names) == sorted({f"p{p}-{n}" for p in range(8) for n in range(25)})
    assert _run(url, lambda store: store.check_content(SCOPE)).wrong == ()


def _count_in_process(url: str, count: int) -> None:
    async def work(store: Store) -> None:
        done = 0
        while done < count:
            known = await store.get_setting(SCOPE, "n") or Setting(0, 0)
            with suppress(VersionConflictError):
                await store.put_setting(SCOPE, "n", known.value + 1, known.version)
                done += 1

    _run(url, work)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.req("D-04")
def test_processes_that_change_one_setting_lose_nothing(url: str) -> None:
    processes = [FORK.Process(target=_count_in_process, args=(url, 10)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
    assert [process.exitcode for process in processes] == [0] * 3
    assert _run(url, lambda store: store.get_setting(SCOPE, "n")) == Setting(30, 30)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CE_SECRET", "a secret that the hosts of these tests share")
    with new_database() as made:
        yield made.render_as_string(hide_password=False)


def _everybody_out(database: str) -> None:
    """What a server does that is started anew: every connection ends."""
    with connected(database) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.mark.req("A-07")
async def test_a_connection_that_was_lost_is_opened_anew(database: str) -> None:
    store = SqlStore(database, lock_timeout_s=20)
    await append("before")(store)
    before = await store.version(SCOPE)
    _everybody_out(database)
    assert await store.version(SCOPE) == before
    await append("after")(store)
    state = await store.state(SCOPE)
    assert state is not None
    assert [row.message.message_id for row in state.rows] == ["before", "after"]
    await store.close()


@pytest.mark.req("A-07")
async def test_stores_of_one_database_do_not_wait_for_each_other_to_be_made(
    database: str,
) -> None:
    """A schema each, as a host of several tenants has them."""
    slow, quick = (
        make_url(database)
        .update_query_dict({"options": f"-csearch_path={name}"})
        .render_as_string(hide_password=False)
        for name in ("slow", "quick")
    )
    with connected(database) as connection:
        connection.execute("CREATE SCHEMA slow")
        connection.execute("CREATE SCHEMA quick")
    with connected(slow) as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE ce_sessions ()")  # who makes another one waits
        waiting = SqlStore(slow, lock_timeout_s=20)
        first = asyncio.ensure_future(append("theirs")(waiting))
        await asyncio.to_thread(_until_somebody_waits, database)
        store = SqlStore(quick, lock_timeout_s=0.2)
        await append("ours")(store)
        assert not first.done()
        connection.execute("ROLLBACK")
    await first
    await store.close()
    await waiting.close()


def _until_somebody_waits(database: str) -> None:
    query = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with connected(database) as connection:
        while not connection.execute(query).fetchall():
            sleep(0.01)


@pytest.mark.req("A-07")
async def test_a_connection_that_the_server_ends_for_its_idleness_is_opened_anew(url: str) -> None:
    """The first call after a pause found it, and the store was "unavailable" for all."""
    store = SqlStore(idle_after(url, "100ms"), lock_timeout_s=20)
    await append("before")(store)
    before = await store.version(SCOPE)
    await asyncio.sleep(0.4)
    assert await store.version(SCOPE) == before
    await asyncio.sleep(0.4)
    await append("after")(store)
    state = await store.state(SCOPE)
    assert state is not None
    assert [row.message.message_id for row in state.rows] == ["before", "after"]
    await store.close()


def idle_after(url: str, time: str) -> str:
    """The same store, whose connections the server ends when they rest for so long."""
    address = make_url(url)
    options = f"{address.query['options']} -cidle_session_timeout={time}"
    return address.update_query_dict({"options": options}).render_as_string(hide_password=False)


@pytest.mark.req("A-07")
async def test_a_session_that_somebody_locks_is_waited_for_no_longer_than_told(url: str) -> None:
    store = SqlStore(url, lock_timeout_s=0.1)
    await append("first")(store)
    with connected(url) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM ce_sessions FOR UPDATE")
        with pytest.raises(StoreUnavailableError, match="locked for another connection"):
            await append("second")(store)
        other = replace(SCOPE, session_id="another")
        await store.apply(other, [AppendMessages([bare_row("theirs")])])
        assert await store.version(SCOPE)
        connection.execute("ROLLBACK")
    await append("third")(store)
    await store.close()


async def test_a_server_that_is_not_there_is_said_without_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CE_SECRET", "a secret that the hosts of these tests share")
    store = SqlStore("postgresql+psycopg://me:pass-word@127.0.0.1:1/db?connect_timeout=2")
    with pytest.raises(StoreUnavailableError, match="cannot be reached") as error:
        await store.version(SCOPE)
    assert "127.0.0.1:1/db" in str(error.value)
    shown = "".join(traceback.format_exception(error.value)) + store.url
    assert "pass-word" not in shown
    await store.close()


def test_without_a_secret_of_all_hosts_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CE_SECRET", raising=False)
    with pytest.raises(StoreUnavailableError, match="needs CE_SECRET"):
        SqlStore("postgresql://host/db").check_place()


@pytest.mark.req("A-07")
async def test_a_host_with_another_secret_writes_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a host that nobody told of it, all others would take what it records for forged."""
    first = SqlStore(url, lock_timeout_s=20)
    await append("m1")(first)
    await first.close()
    monkeypatch.setenv("CE_SECRET", "the secret of a host that nobody told of the other")
    other = SqlStore(url, lock_timeout_s=20)
    with pytest.raises(StoreUnavailableError, match="with another CE_SECRET") as error:
        await append("m2")(other)
    with connected(url) as connection:
        assert connection.execute("SELECT count(*) FROM ce_messages").fetchone() == (1,)
        connection.execute(str(error.value).partition("run: ")[2])
    await append("m2")(other)
    await other.close()


@pytest.mark.req("A-07")
async def test_a_schema_whose_name_has_capitals_has_its_own_mark(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_url(database).update_query_dict({"options": '-csearch_path="MyTenant"'})
    shown = url.render_as_string(hide_password=False)
    with connected(database) as connection:
        connection.execute('CREATE SCHEMA "MyTenant"')
    for name in ("m1", "m2"):
        store = SqlStore(shown, lock_timeout_s=20)
        await append(name)(store)
        await store.close()
    monkeypatch.setenv("CE_SECRET", "the secret of a host that nobody told of the other")
    other = SqlStore(shown, lock_timeout_s=20)
    with pytest.raises(StoreUnavailableError, match=r'COMMENT ON TABLE "MyTenant"\.ce_revision'):
        await append("m3")(other)
    await other.close()


@pytest.mark.req("A-07")
async def test_an_operators_comment_on_a_table_is_the_operators(url: str) -> None:
    for name in ("m1", "m2"):
        store = SqlStore(url, lock_timeout_s=20)
        await append(name)(store)
        await store.close()
        with connected(url) as connection:
            connection.execute("COMMENT ON TABLE ce_revision IS 'owned by the platform team'")


async def test_a_schema_of_a_newer_release_is_left_alone(url: str) -> None:
    store = SqlStore(url, lock_timeout_s=20)
    await append("first")(store)
    await store.close()
    with connected(url) as connection:
        connection.execute("UPDATE ce_revision SET version_num = '9999'")
    newer = SqlStore(url, lock_timeout_s=20)
    with pytest.raises(MigrationError, match="9999"):
        await newer.version(SCOPE)
    await newer.close()


_NOISE = random.Random(5)
LONG = "".join(chr(_NOISE.randrange(0x4E00, 0x9FA5)) for _ in range(6000))
"""What no index takes: it neither fits nor compresses."""


def _asked(**more: str) -> Callable[[ContextEngine], object]:
    whose = {"session_id": "evil", "user_id": "evil", **more}
    return lambda engine: HostApp(engine, Scope(**whose)).ask("q", "a")


def _block(engine: ContextEngine) -> object:
    block = ContextBlock(block_id=LONG, block_type=BlockType.MEMORY, priority=Priority.HIGH)
    return engine.sync.put_context_blocks(Scope(session_id="evil"), [block])


def _task(engine: ContextEngine) -> object:
    return engine.sync.upsert_tasks(Scope(session_id="evil"), [Task(task_id=LONG, name="t")])


def _lane(engine: ContextEngine) -> object:
    app = HostApp(engine, Scope(session_id="evil"))
    app.commit(app.prepare(user("q"), lane_key=LONG), assistant("a"))
    return [app.prepare(user("word " * 1500), lane_key=LONG) for _ in range(3)]


HOSTILE: dict[str, Callable[[ContextEngine], object]] = {
    "session_id": _asked(session_id=LONG),
    "user_id": _asked(user_id=LONG),
    "account_id": _asked(account_id=LONG),
    "block_id": _block,
    "task_id": _task,
    "lane_key": _lane,
}


@pytest.mark.req("B-03")
@pytest.mark.parametrize("what", HOSTILE)
def test_an_id_that_the_server_cannot_take_stops_no_other_session(url: str, what: str) -> None:
    """An index has its limit: what is over it was told as a server that is away, and nothing was recorded any more."""
    config = RuntimeConfig(
        store=StoreConfig(deadline_s=20), budget=BudgetConfig(max_input_tokens=3000)
    )
    engine = create_context_engine(url, config=config)
    normal = Scope(session_id="normal", user_id="li")
    other = HostApp(engine, normal)
    with suppress(ContextEngineError):
        HOSTILE[what](engine)
    for n in range(4):
        report = other.prepare(user(f"n{n}")).report
        assert "CONTEXT_STORE_UNAVAILABLE" not in report.degradations
        other.ask(f"q{n}", f"你好 {n}")
    was_dropped = what in {"block_id", "task_id", "lane_key"}
    assert engine.sync.flush() is not was_dropped
    assert engine.sync.flush()
    engine.sync.close()
    engine = create_context_engine(url, config=config)
    document = engine.sync.get_session(normal)
    engine.sync.close()
    assert document is not None
    answers = [each.content for each in document.session.messages if each.role is Role.ASSISTANT]
    assert answers == [f"你好 {n}" for n in range(4)]


@pytest.mark.req("A-23")
def test_what_comes_while_a_table_is_exchanged_waits(url: str) -> None:
    config = RuntimeConfig(store=StoreConfig(deadline_s=1, breaker_s=0.05))
    engine = create_context_engine(url, config=config)
    app = HostApp(engine, Scope(session_id="s"))
    app.ask("q0", "a0")
    assert engine.sync.flush(20)
    with connected(url) as connection:
        connection.execute("ALTER TABLE ce_turns RENAME TO ce_turns_old")
        app.ask("q1", "a1")
        assert not engine.sync.flush(0.3)
        connection.execute("ALTER TABLE ce_turns_old RENAME TO ce_turns")
    assert engine.sync.flush(20)
    document = engine.sync.get_session(Scope(session_id="s"))
    engine.sync.close()
    assert document is not None
    assert [m.content for m in document.session.messages] == ["q0", "a0", "q1", "a1"]


@pytest.mark.req("B-03")
async def test_a_store_in_another_schema_of_the_search_path_is_somebody_elses(url: str) -> None:
    store = SqlStore(url, lock_timeout_s=20)
    await store.apply(SCOPE, [AppendMessages([bare_row("m1")])])
    await store.close()
    theirs = schema_of(url).partition(",")[0]
    address = make_url(url)
    mine = f"{theirs}_mine"
    with connected(url) as connection:
        connection.execute(f"CREATE SCHEMA {mine}")
    both = address.update_query_dict({"options": f"-csearch_path={mine},{theirs}"})
    store = SqlStore(both.render_as_string(hide_password=False), lock_timeout_s=20)
    with pytest.raises(StoreUnavailableError, match=rf"in the schema {theirs}, .*Name one schema"):
        await store.state(SCOPE)
    with pytest.raises(StoreUnavailableError, match="somebody else's"):
        await store.apply(SCOPE, [AppendMessages([bare_row("m2")])])
    await store.close()
    with connected(url) as connection:
        connection.execute(f"DROP SCHEMA {mine}")


async def test_it_is_told_what_is_too_long(url: str) -> None:
    store = SqlStore(url, lock_timeout_s=20)
    with pytest.raises(FileDamagedError, match="shorter"):
        await store.apply(Scope.of_stored("", "", LONG), [AppendMessages([bare_row("m1")])])
    await store.apply(SCOPE, [AppendMessages([bare_row("m1")])])
    await store.close()
