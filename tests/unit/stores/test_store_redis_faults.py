"""A Redis server that is away, full, killed, or somebody else's: what is told, and what is kept."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest

from ce_engine import Message, Role, RuntimeConfig, StoreConfig, create_context_engine
from ce_engine.errors import FileDamagedError, MigrationError, StoreUnavailableError
from ce_engine.ports.store import Store
from ce_engine.schema.event_chain import verify_chain
from ce_engine.schema.ids import chain_keys
from ce_engine.schema.rows import DeleteSession
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting, Versions
from ce_engine.stores.base import SEALED_BY
from ce_engine.stores.documents.redis import RedisStore, pages, shelf
from ce_engine.stores.documents.redis import store as redis_store
from ce_engine.stores.documents.redis.link import Link
from ce_engine.stores.documents.redis.server_url import place_of
from ce_engine.stores.owner_settings import owner_of
from ce_engine.testing.samples import SCOPE, message
from ce_engine.testing.store_deletion import CANARY, deletion, everything
from ce_engine.testing.store_reading import read_names, read_state
from tests.hosts import redis_host
from tests.hosts.redis_host import Server, client_of
from tests.hosts.store_host import append


pytestmark = pytest.mark.anyio

SECRET = "a secret of tests that is long enough"
SNAPSHOTS = ("--save", "", "--appendonly", "no")
LOG = ("--save", "", "--appendonly", "yes", "--appendfsync")


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", SECRET)


@pytest.fixture
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of this test's own, with the options of its parameter."""
    made = redis_host.own_server(tmp_path, *getattr(request, "param", SNAPSHOTS))
    yield made
    made.kill()


def command(server: Server, *words: Any) -> Any:
    with client_of(server.url) as client:
        return client.execute_command(*words)


# Away


async def test_a_server_that_is_not_there_is_named_with_the_cure() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = RedisStore(f"redis://user:pass-word@127.0.0.1:{port}/0")
    for call in (store.version(SCOPE), store.apply(SCOPE, message("m1")), store.check()):
        with pytest.raises(StoreUnavailableError, match=r"cannot be reached\. Start it") as told:
            await call
        assert f"127.0.0.1:{port}/0" in str(told.value)
        assert "pass-word" not in str(told.value)
    await store.close()


async def test_a_server_that_does_not_answer_is_not_waited_for_forever() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        store = RedisStore(f"redis://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.1)
        for call in (store.apply(SCOPE, message("m1")), store.version(SCOPE)):
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                await call
        await store.close()


async def test_an_answer_without_an_end_does_not_keep_a_store_from_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A time limit of a socket counts for each part of an answer."""
    monkeypatch.setattr(redis_store, "_LAST_WORDS_S", 0.5)

    def drip(connection: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection.sendall(b"+")
                sleep(0.01)

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    Thread(target=drip, args=(server.accept()[0],), daemon=True).start()

        Thread(target=serve, daemon=True).start()
        store = RedisStore(f"redis://127.0.0.1:{server.getsockname()[1]}", timeout_s=0.2)
        reading = asyncio.ensure_future(store.version(SCOPE))
        await asyncio.sleep(0.5)
        assert not reading.done()
        await asyncio.wait_for(store.close(), 20)
        with pytest.raises(StoreUnavailableError):
            await reading


def test_an_engine_goes_on_without_its_server_and_stores_later(server: Server) -> None:
    store = RedisStore(server.url)
    config = RuntimeConfig(store=StoreConfig(deadline_s=0.2, breaker_s=0.05))
    engine = create_context_engine(store, config=config)
    engine.sync.prepare_turn(SCOPE, _question("before"))
    assert engine.sync.flush(20)
    command(server, "SAVE")
    server.kill()
    prepared = engine.sync.prepare_turn(Scope(session_id="other"), _question("meanwhile"))
    assert prepared is not None
    server.start()
    assert engine.sync.flush(30)
    document = engine.loop.run(store.get_session(Scope(session_id="other")))
    assert document is not None
    assert [m.content for m in document.session.messages] == ["meanwhile"]
    engine.sync.close()


def _question(text: str) -> Any:
    return Message(role=Role.USER, content=text)


@pytest.mark.parametrize(
    ("options", "told"),
    [("", "do not agree on TLS.*ca_certs"), ("?ca_certs=/nowhere/ca.pem", "is not there.*path")],
)
async def test_a_server_without_tls_and_files_that_are_not_there(options: str, told: str) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"-ERR who are you?\r\n" * 10)
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as plain:
        port = plain.sockets[0].getsockname()[1]
        store = RedisStore(f"rediss://127.0.0.1:{port}/0{options}")
        with pytest.raises(StoreUnavailableError, match=told):
            await store.check()
        await store.close()


@pytest.mark.parametrize("server", [(*SNAPSHOTS, "--requirepass", "pass-word")], indirect=True)
async def test_a_wrong_password(server: Server) -> None:
    for url in (server.url, server.url.replace("//", "//:wrong-word@")):
        store = RedisStore(url)
        with pytest.raises(StoreUnavailableError, match="user or password") as told:
            await store.check()
        assert "wrong-word" not in str(told.value)
        await store.close()
    store = RedisStore(server.url.replace("//", "//:pass-word@"))
    await store.check()
    assert "pass-word" not in store.url
    await store.close()


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), "is full.*maxmemory"),
        (("REPLICAOF", "127.0.0.1", "1"), "is a replica.*Name the primary"),
        (("ACL", "SETUSER", "default", "-eval", "-set"), "does not let this user.*ACL"),
    ],
)
async def test_a_server_that_takes_no_writes(
    server: Server, trouble: tuple[str, ...], told: str
) -> None:
    store = RedisStore(server.url)
    await append("m1")(store)
    command(server, *trouble)
    for call in (store.apply(SCOPE, message("m2")), store.check()):
        with pytest.raises(StoreUnavailableError, match=told):
            await call
    assert await read_names(store) == ["m1"]
    await store.close()


@pytest.mark.req("A-30")
async def test_what_is_deleted_leaves_a_full_server(server: Server) -> None:
    store = RedisStore(server.url)
    await store.apply(SCOPE, everything(CANARY))
    command(server, "CONFIG", "SET", "maxmemory", "1")
    await store.apply(SCOPE, [DeleteSession(deletion(store))])
    assert await store.version(SCOPE) == Versions()
    left = command(server, "LRANGE", place_of(server.url).session(SCOPE.key), 0, -1)
    assert left
    assert CANARY.encode() not in b"".join(left)
    with pytest.raises(StoreUnavailableError, match="is full"):
        await append("m2")(store)
    await store.close()


async def test_a_connection_that_was_lost_is_made_anew(server: Server) -> None:
    store = RedisStore(server.url)
    await append("m1")(store)
    assert await read_names(store) == ["m1"]
    command(server, "CLIENT", "KILL", "TYPE", "normal")
    await append("m2")(store)
    assert await read_names(store) == ["m1", "m2"]
    await store.close()


def test_a_write_whose_answer_was_lost_is_not_written_twice(server: Server) -> None:
    link = Link(place_of(server.url), 5)
    for _ in range(2):
        for old, new, text in ((b"", b"s1", b"page"), (b"s1", b"s2", b"line")):
            done = link.swap("k", (old, new), text, is_page=old == b"", expire_ms=0, mark="")
            assert done or new == b"s1"
            assert (
                link.swap("k", (old, new), text, is_page=old == b"", expire_ms=0, mark="") is done
            )
    assert link.texts("k") == [b"s2", b"page", b"line"]
    link.close()


# Killed


@pytest.mark.parametrize("server", [(*LOG, "always"), (*LOG, "everysec")], indirect=True)
@pytest.mark.req("A-07")
async def test_a_log_keeps_what_was_acknowledged_when_the_server_is_killed(server: Server) -> None:
    store = RedisStore(server.url, timeout_s=20)
    names = [f"m{n}" for n in range(30)]
    await append(*names)(store)
    await store.put_setting(SCOPE, "x", 1)
    await _wait_for_its_disk(server)
    server.kill()
    server.start()
    assert await read_names(store) == names
    assert await store.get_setting(SCOPE, "x") == Setting(1, 1)
    assert await store.version(SCOPE) == (30, 0, 1)
    await store.close()
    fresh = RedisStore(server.url, timeout_s=20)
    await check_whole(fresh, names)
    await fresh.close()


async def _wait_for_its_disk(server: Server) -> None:
    """Until the log is with the operating system: where an `everysec` server's disk lags it is later, for at most two seconds."""
    for _ in range(600):
        if not command(server, "INFO", "persistence")["aof_buffer_length"]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the server's disk lags for 30 s")


async def _write_among_kills(server: Server) -> tuple[list[RedisStore], list[list[str]]]:
    """Three who write while the server is killed four times: the stores, and what each wrote, in its order.

    Writes that fail are repeated, as the engine does: nobody knows whether they had landed.
    """
    stores = [RedisStore(server.url, timeout_s=5) for _ in range(3)]
    tried = [[f"s{n}-{i}" for i in range(60)] for n in range(len(stores))]

    async def write(store: RedisStore, names: list[str]) -> None:
        for name in names:
            while True:
                try:
                    await append(name)(store)
                    break
                except StoreUnavailableError:
                    await asyncio.sleep(0.01)

    writing = [asyncio.create_task(write(*each)) for each in zip(stores, tried, strict=True)]
    for _ in range(4):
        await asyncio.sleep(0.03)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
    await asyncio.gather(*writing)
    return stores, tried


@pytest.mark.parametrize("server", [(*LOG, "always")], indirect=True)
@pytest.mark.req("A-07")
async def test_a_server_that_is_killed_among_writes_has_each_once_and_in_order(
    server: Server,
) -> None:
    stores, tried = await _write_among_kills(server)
    whole = await read_names(stores[0])
    for store, names in zip(stores, tried, strict=True):
        await check_whole(store, whole)
        assert [name for name in whole if name in names] == names
        assert (await store.version(SCOPE)).epoch == 0
        await store.close()


@pytest.mark.parametrize("server", [(*LOG, "everysec")], indirect=True)
@pytest.mark.req("A-07")
async def test_a_server_whose_disk_may_lag_has_each_once_and_in_order_or_lost_an_end(
    server: Server,
) -> None:
    stores, tried = await _write_among_kills(server)
    whole = await read_names(stores[0])
    assert len(set(whole)) == len(whole)
    for store, names in zip(stores, tried, strict=True):
        await check_whole(store, whole)
        own = [name for name in whole if name in names]
        assert own == sorted(own, key=names.index)
        assert own[-1] == names[-1], "nobody was killed behind the last"
        await store.close()


async def check_whole(store: Store, names: Sequence[str | None]) -> None:
    """These messages, each with its event, numbered without gaps, in a chain that verifies."""
    state, events = await read_state(store), await store.list_events(SCOPE)
    assert [row.message.message_id for row in state.rows] == names
    assert [row.message.seq for row in state.rows] == list(range(1, len(names) + 1))
    assert [event.event_id for event in events] == [f"v-{name}" for name in names]
    assert verify_chain(events, state.head.chain_head, chain_keys(store.secret, SCOPE.key)) is None
    found = await store.check_content(SCOPE)
    assert found is not None
    assert (found.wrong, found.unverified) == ((), ())


@pytest.mark.parametrize("kept", [64, 0], ids=["in memory", "read anew"])
@pytest.mark.parametrize("lines_bytes", [64_000, 100], ids=["lines", "pages"])
@pytest.mark.parametrize("meanwhile", [0, 1, 2, 5])
@pytest.mark.req("A-07", "B-01")
async def test_what_snapshots_lost_is_taken_for_stored_by_nobody(
    server: Server, meanwhile: int, lines_bytes: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever knows more than came back sees another epoch, however much others wrote since."""
    monkeypatch.setattr(pages, "LINES_BYTES", lines_bytes)
    monkeypatch.setattr(shelf, "_KEPT_SESSIONS", kept)
    stores = [RedisStore(server.url, timeout_s=20) for _ in range(3)]
    await append("m1", "m2")(stores[0])
    command(server, "SAVE")
    await append("lost1", "lost2")(stores[0])
    assert await read_names(stores[1]) == ["m1", "m2", "lost1", "lost2"]
    before = await stores[1].version(SCOPE)
    server.kill()
    server.start()
    since = [f"new{n}" for n in range(meanwhile)]
    await append(*since)(stores[2])
    names = ["m1", "m2", *since]
    for store in stores[:2]:
        now = await store.version(SCOPE)
        assert now.epoch > before.epoch
        state = await store.state(SCOPE)
        assert state is not None
        assert (state.head.version, state.head.epoch) == now[:2]
        assert await read_names(store) == names
    await append("last")(stores[1])
    for store in stores:
        await check_whole(store, [*names, "last"])
        await store.close()


@pytest.mark.parametrize("saved", [True, False], ids=["an older state", "nothing"])
@pytest.mark.req("A-07", "B-01")
def test_an_engine_goes_on_from_what_came_back(server: Server, saved: bool) -> None:
    store = RedisStore(server.url, timeout_s=20)
    config = RuntimeConfig(fail="closed", store=StoreConfig(deadline_s=30))
    engine = create_context_engine(store, config=config)
    for n in range(5):
        if n == 3:
            server.kill()
            server.start()
        engine.sync.prepare_turn(SCOPE, _question(f"question {n}"))
        answer = Message(role=Role.ASSISTANT, content=f"answer {n}")
        assert engine.sync.commit_assistant_message(SCOPE, answer).success
        if n == 0 and saved:
            assert engine.sync.flush(20)
            command(server, "SAVE")
    assert engine.sync.flush(20)
    document = engine.loop.run(store.get_session(SCOPE))
    assert document is not None
    left = [0, 3, 4] if saved else [3, 4]
    texts = [f"{what} {n}" for n in left for what in ("question", "answer")]
    assert [each.content for each in document.session.messages] == texts
    assert [each.seq for each in document.session.messages] == list(range(1, len(texts) + 1))
    found = engine.loop.run(engine.verify(SCOPE))
    assert (found.tampered_seq, found.wrong, found.unverified) == (None, (), ())
    engine.sync.close()


async def test_a_server_that_lost_all_begins_anew(server: Server) -> None:
    store = RedisStore(server.url, timeout_s=20)
    await append("m1")(store)
    server.kill()
    server.start()
    assert await store.version(SCOPE) == (0, 0, 0)
    assert await store.state(SCOPE) is None
    await append("m2")(store)
    await check_whole(store, ["m2"])
    await store.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.req("A-07", "B-01")
async def test_within_an_epoch_what_was_seen_stays(server: Server, seed: int) -> None:
    """Stores append and read while the server saves, and comes back older, at random moments."""
    rng = random.Random(seed)
    stores = [RedisStore(server.url, timeout_s=20) for _ in range(3)]
    seen: list[tuple[int, list[str]]] = [(-1, [])] * len(stores)
    for n in range(60):
        if n % 12 == 11:
            server.kill()
            server.start()
        elif rng.random() < 0.15:
            command(server, "SAVE")
        number = rng.randrange(len(stores))
        store = stores[number]
        if rng.random() < 0.6:
            await append(f"m{n}")(store)
        before = (await store.version(SCOPE))[:2]
        state = await store.state(SCOPE)
        names = [str(row.message.message_id) for row in state.rows] if state else []
        now = (state.head.version, state.head.epoch) if state else (0, 0)
        assert before == now
        epoch, last = seen[number]
        assert now[1] > epoch or not now[0] or names[: len(last)] == last
        seen[number] = (now[1], names) if now[0] else (epoch, [])
    whole = await read_names(stores[0])
    for store in stores:
        await check_whole(store, whole)
        await store.close()


# Somebody else's hands


async def test_what_somebody_changed_is_called_forged_and_stays_so() -> None:
    url = redis_host.fresh_url()
    store, key = RedisStore(url, timeout_s=20), place_of(url).session(SCOPE.key)
    await append("m1", "m2")(store)
    with client_of(url) as client:
        line = client.lindex(key, -1)
        assert isinstance(line, bytes)
        client.lset(key, -1, line.replace(b"v-m2", b"v-m9"))
    for _ in range(2):
        found = await store.check_content(SCOPE)
        assert found is not None
        assert found.wrong == ("not what was written: the line after version 1",)
        fresh = RedisStore(url, timeout_s=20)
        await append("m3")(fresh)
        await fresh.close()
    await store.close()
    redis_host.forget(url)


@pytest.mark.parametrize("place", [2, 3, 4, 5], ids=["lines", "version", "epoch", "deleted"])
@pytest.mark.parametrize("number", ["0{}", "+{}", "{}0000000000000000000", "-{}"])
async def test_a_stamp_that_no_write_puts_there_is_damaged_for_its_session_alone(
    place: int, number: str
) -> None:
    """Else a writer, which compares the text, would find for ever that others were faster."""
    url = redis_host.fresh_url()
    store, key = RedisStore(url, timeout_s=20), place_of(url).session(SCOPE.key)
    await append("m1")(store)
    with client_of(url) as client:
        stamp = client.lindex(key, 0)
        assert isinstance(stamp, bytes)
        parts = stamp.decode().split(" ")
        parts[place] = number.format(
            parts[place] if parts[place] != "0" or number[0] != "-" else "1"
        )
        if parts[place] == "0" * len(parts[place]):
            parts[place] = "00"
        client.lset(key, 0, " ".join(parts))
        spoilt = client.lrange(key, 0, -1)
        fresh = RedisStore(url, timeout_s=20)
        for asked in (fresh.state(SCOPE), fresh.apply(SCOPE, message("m2"))):
            with pytest.raises(FileDamagedError, match="a stamp"):
                await asked
        assert client.lrange(key, 0, -1) == spoilt
        assert (await fresh.apply(Scope(session_id="other"), message("m1"))).success
        assert any("a stamp" in told for told in await fresh.damaged())
        await fresh.close()
    await store.close()
    redis_host.forget(url)


async def test_what_is_no_session_is_left_as_it_is() -> None:
    url = redis_host.fresh_url()
    place = place_of(url)
    store, key = RedisStore(url, timeout_s=20), place.session(SCOPE.key)
    other = Scope(session_id="other")
    await append("m1")(store)
    with client_of(url) as client:
        client.copy(key, place.session(other.key))
        with pytest.raises(FileDamagedError, match="another session"):
            await store.apply(other, message("m2"))
        stamp, page = client.lrange(place.session(other.key), 0, -1)
        assert isinstance(page, bytes)
        for text, error, told in (
            (page.replace(b'"format":1', b'"format":9'), MigrationError, "format 9"),
            (b"x" * 40, FileDamagedError, "damaged record"),
        ):
            client.delete(key)
            client.rpush(key, stamp, text)
            fresh = RedisStore(url, timeout_s=20)
            with pytest.raises(error, match=told):
                await fresh.state(SCOPE)
            with pytest.raises(error, match=told):
                await fresh.apply(SCOPE, message("m2"))
            await fresh.close()
            assert client.lrange(key, 0, -1) == [stamp, text]
        client.delete(key)
        client.set(key, "somebody's")
        with pytest.raises(FileDamagedError, match=r"of another type.*delete its key"):
            await store.apply(SCOPE, message("m2"))
        assert client.get(key) == b"somebody's"
    await store.close()
    redis_host.forget(url)


@pytest.mark.parametrize("key", ["the secret's", "the seal's"])
async def test_a_key_of_the_store_itself_that_is_somebody_elses_is_no_sessions_damage(
    key: str,
) -> None:
    """What is handed over waits until it is mended, and no record is given up."""
    url = redis_host.fresh_url()
    place = place_of(url)
    store = RedisStore(url, timeout_s=20)
    await append("m1")(store)
    await store.close()
    name = place.secret_mark if key == "the secret's" else place.owner(owner_of(SEALED_BY))
    with client_of(url) as client:
        client.delete(name)
        client.sadd(name, "x")
    store = RedisStore(url, timeout_s=20)
    with pytest.raises(StoreUnavailableError, match=r"somebody else") as told:
        await store.apply(SCOPE, message("m2"))
    assert type(told.value) is StoreUnavailableError
    assert await read_names(store) == ["m1"]
    await store.close()
    redis_host.forget(url)


async def test_somebody_elses_key_in_the_place_of_the_purges_mark_refuses_no_deletion() -> None:
    url = redis_host.fresh_url()
    store = RedisStore(url, timeout_s=20)
    await append("m1")(store)
    with client_of(url) as client:
        client.sadd(place_of(url).purge_mark, "x")
        await store.purge()  # as a deletion does that finds nothing
        await store.apply(SCOPE, [DeleteSession(deletion(store))])
        await store.purge()
        assert not client.exists(place_of(url).purge_mark)
    assert await store.state(SCOPE) is None
    await store.close()
    redis_host.forget(url)
