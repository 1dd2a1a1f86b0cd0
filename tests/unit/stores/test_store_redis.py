"""The Redis store: the contract, expiry, its URL, what it says when the server is away."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import pytest

from ce_engine import create_context_engine
from ce_engine.errors import (
    ConfigError,
    MissingDependencyError,
    StoreUnavailableError,
    StoreUrlError,
)
from ce_engine.ports.store import Store
from ce_engine.schema.rows import AppendMessages, DeleteSession
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Versions
from ce_engine.stores import open_store
from ce_engine.stores.documents.redis import RedisStore, shelf
from ce_engine.stores.documents.redis.server_url import place_of
from ce_engine.testing import StoreContract, samples
from ce_engine.testing.samples import SCOPE, message
from ce_engine.testing.store_deletion import CANARY, deletion, everything
from ce_engine.testing.store_reading import read_names
from tests.hosts import redis_host
from tests.hosts.redis_host import Server, client_of
from tests.hosts.store_host import append


pytestmark = pytest.mark.anyio

SECRET = "a secret of tests that is long enough"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", SECRET)


@pytest.fixture
def url() -> Iterator[str]:
    made = redis_host.fresh_url()
    yield made
    redis_host.forget(made)


class TestRedisStore(StoreContract):
    @pytest.fixture
    async def store(self, _secret: None) -> AsyncIterator[Store]:
        url = redis_host.fresh_url()
        store = RedisStore(url, timeout_s=20)
        yield store
        await store.close()
        redis_host.forget(url)

    def bytes_of(self, store: Store) -> bytes:
        assert isinstance(store, RedisStore)
        return redis_host.bytes_of(store.url)


class TestRedisStoreThatForgets(TestRedisStore):
    """What is read comes from the server, all of it."""

    @pytest.fixture(autouse=True)
    def _forgetful(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shelf, "_KEPT_SESSIONS", 0)


# Its URL


@pytest.mark.parametrize(
    ("url", "server", "shown"),
    [
        ("redis://host", "host:6379/0", "redis://host"),
        ("redis://host:1/2?prefix=app.1", "host:1/2", "redis://host:1/2?prefix=app.1"),
        ("rediss://me:p%40ss@[::1]:7/", "::1:7/0", "rediss://me:***@[::1]:7/"),
        ("REDIS://:pass@host?expire=7d", "host:6379/0", "REDIS://:***@host?expire=7d"),
    ],
)
def test_a_url_names_a_server_and_shows_no_password(url: str, server: str, shown: str) -> None:
    place = place_of(url)
    assert (place.server, place.url) == (server, shown)
    assert open_store(url).url == shown


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5), ("5s", 5), ("2m", 120), ("1h", 3600), ("7d", 604_800)]
)
def test_a_time_to_expire(text: str, seconds: int) -> None:
    assert place_of(f"redis://host?expire={text}").expire_ms == 1000 * seconds


def test_what_connects() -> None:
    url = "rediss://me:p%40ss@host:7/3?ca_certs=/etc/ca.pem"
    assert place_of(url).connecting == {
        "host": "host",
        "port": 7,
        "db": 3,
        "username": "me",
        "password": "p@ss",
        "ssl": True,
        "ssl_check_hostname": True,
        "ssl_ca_certs": "/etc/ca.pem",
    }


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://", "names no host"),
        ("redis:///0", "names no host"),
        ("redis://:pass-word@host:port/0", "host or port"),
        ("redis://:pass-word@host/name", "number of a database"),
        ("redis://:pass-word@host?mode=ro", "prefix, expire, ca_certs.*found mode"),
        ("redis://host?prefix=a:b", "a prefix has letters"),
        ("redis://host?prefix=", "a prefix has letters"),
        ("redis://host?expire=soon", "expire=7d"),
        ("redis://host?expire=0", "expire=7d"),
        ("redis://host?expire=999999999999d", "expire=7d"),
        ("redis://host?ca_certs=x", "write rediss://"),
    ],
)
def test_a_url_that_is_not_understood_names_the_cure(url: str, told: str) -> None:
    with pytest.raises(StoreUrlError, match=told) as error:
        open_store(url)
    assert "pass-word" not in str(error.value)


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.startswith("ce_engine.stores.documents.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'ce-integrations\[redis\]'"):
        open_store("redis://host")


# The secret


async def test_without_a_secret_nothing_is_written_and_what_is_there_is_read(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RedisStore(url, timeout_s=20)
    await append("m1")(store)
    monkeypatch.delenv("CE_SECRET")
    with pytest.raises(ConfigError, match="openssl rand"):
        create_context_engine(store).check_possible()
    with pytest.raises(StoreUnavailableError, match="CE_SECRET is not set"):
        await append("m2")(store)
    other = RedisStore(url, timeout_s=20)
    for each in (store, other):
        assert await read_names(each) == ["m1"]
        found = await each.check_content(SCOPE)
        assert found is not None
        assert found.unverified == ("content: CE_SECRET is not set",)
        await each.close()


async def test_a_host_with_another_secret_writes_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RedisStore(url, timeout_s=20)
    await append("m1")(store)
    monkeypatch.setenv("CE_SECRET", "the secret of a host that nobody told of the other")
    other = RedisStore(url, timeout_s=20)
    for call in (append("m2")(other), other.check()):
        with pytest.raises(StoreUnavailableError, match=r"of another CE_SECRET.*delete the key"):
            await call
    monkeypatch.setenv("CE_SECRET", SECRET)
    assert await read_names(store) == ["m1"]
    found = await store.check_content(SCOPE)
    assert found is not None
    assert found.wrong == ()
    with client_of(url) as client:
        client.delete(place_of(url).secret_mark)
    monkeypatch.setenv("CE_SECRET", "the new secret, after the first one was lost for good")
    await other.check()
    for each in (store, other):
        await each.close()


# What is in the server


@pytest.mark.req("B-03")
async def test_keys_hold_encoded_ids_alone(url: str) -> None:
    odd = ["", ":", "*", "a:b", "a", "b:a", "[a-z]?", "字 \n", "%3A", "\\", "-", "~"]
    keys = [(account, user, "s:*") for account in odd for user in odd]
    store = RedisStore(url, timeout_s=20)
    for account, user, session in keys:
        scope = Scope(session_id=session, user_id=user, account_id=account)
        await store.apply(scope, message("m1"))
        await store.put_setting(scope, "x", account)
    assert await store.list_keys() == sorted(keys)
    for account, user, _ in keys:
        listed = await store.list_sessions(account_id=account, user_id=user)
        assert [(info.account_id, info.user_id) for info in listed] == [(account, user)]
    for account in odd:
        assert len(await store.list_sessions(account_id=account, user_id=None)) == len(odd)
    with client_of(url) as client:
        names = list(client.scan_iter(match=f"{place_of(url).prefix}:*"))
    assert len(names) == 2 * len(keys) + 1
    form = rb"[\w.-]+:(secret|[so](:[\w.~%-]*){2,3})"
    assert all(re.fullmatch(form, cast("bytes", name)) for name in names)
    await store.close()


async def test_stores_with_other_prefixes_share_a_server(url: str) -> None:
    mine, other = RedisStore(url, timeout_s=20), RedisStore(f"{url}.2", timeout_s=20)
    await append("m1")(mine)
    await append("m2")(other)
    assert (await read_names(mine), await read_names(other)) == (["m1"], ["m2"])
    assert await mine.list_keys() == [SCOPE.key]
    for store in (mine, other):
        await store.close()
    redis_host.forget(f"{url}.2")


async def test_lines_become_a_page_before_they_are_longer_than_it(url: str) -> None:
    store, key = RedisStore(url, timeout_s=20), place_of(url).session(SCOPE.key)
    sizes = []
    with client_of(url) as client:
        for n in range(40):
            await store.apply(SCOPE, [AppendMessages([samples.bare_row(f"m{n}", "x" * 5000)])])
            sizes.append(cast("int", client.llen(key)))
    assert max(sizes) < 20
    assert len([size for size in sizes if size == 2]) >= 3
    assert await read_names(store) == [f"m{n}" for n in range(40)]
    await store.close()


# Expiry


async def ttl_ms(url: str) -> int:
    with client_of(url) as client:
        return cast("int", client.pttl(place_of(url).session(SCOPE.key)))


async def test_a_session_expires_so_long_after_its_last_write_and_settings_never(url: str) -> None:
    store, forever = RedisStore(f"{url}&expire=2h", timeout_s=20), RedisStore(url, timeout_s=20)
    await append("m1")(store)
    await store.put_setting(SCOPE, "x", 1)
    with client_of(url) as client:
        key = place_of(url).session(SCOPE.key)
        client.pexpire(key, 60_000)
        await append("m2")(store)
        assert 60_000 < await ttl_ms(url) <= 7_200_000
        assert client.pttl(place_of(url).owner((SCOPE.account_id, SCOPE.user_id))) == -1
        await store.apply(SCOPE, [DeleteSession(deletion(store))])
        assert 60_000 < await ttl_ms(url) <= 7_200_000
        await append("m3")(forever)
        assert await ttl_ms(url) == -1
    for each in (store, forever):
        await each.close()


async def test_what_expired_is_gone_and_what_begins_anew_is_not_taken_for_it(url: str) -> None:
    stores = [RedisStore(url, timeout_s=20) for _ in range(2)]
    await append("m1", "m2")(stores[0])
    assert await read_names(stores[1]) == ["m1", "m2"]
    before = await stores[1].version(SCOPE)
    key = place_of(url).session(SCOPE.key)
    with client_of(url) as client:
        client.pexpire(key, 1)
        while client.exists(key):
            pass
    assert await stores[0].version(SCOPE) == Versions()
    assert await stores[0].state(SCOPE) is None
    assert await stores[0].chain(SCOPE) is None
    assert await stores[0].list_sessions(account_id=SCOPE.account_id, user_id=SCOPE.user_id) == []
    await append("m3")(stores[0])
    for store in stores:
        assert await read_names(store) == ["m3"]
        after = await store.version(SCOPE)
        assert (after.version, after.epoch) > before[:2]
        assert after.epoch > before.epoch
        await store.close()


# Purging


@pytest.fixture
def saving(tmp_path: Path) -> Iterator[Server]:
    """A server with both kinds of files."""
    server = redis_host.own_server(tmp_path, "--appendonly", "yes", "--save", "3600", "1")
    yield server
    server.kill()


@pytest.mark.req("A-30")
async def test_a_snapshot_that_nobody_configured_is_written_anew(tmp_path: Path) -> None:
    server = redis_host.own_server(tmp_path, "--save", "", "--appendonly", "yes")
    store = RedisStore(server.url, timeout_s=20)
    await store.apply(SCOPE, everything(CANARY))
    with client_of(server.url) as client:
        client.bgsave()  # as for a replica
        for _ in range(400):
            if not client.info("persistence")["rdb_bgsave_in_progress"]:
                break
            await asyncio.sleep(0.05)
    assert CANARY.encode() in (tmp_path / "dump.rdb").read_bytes()
    await store.apply(SCOPE, [DeleteSession(deletion(store))])
    await store.purge()
    assert CANARY.encode() not in (tmp_path / "dump.rdb").read_bytes()
    await store.close()
    server.kill()


@pytest.mark.req("A-30")
async def test_a_server_that_saves_nothing_writes_no_snapshot_for_a_deletion(
    tmp_path: Path,
) -> None:
    server = redis_host.own_server(tmp_path, "--save", "", "--appendonly", "no")
    store = RedisStore(server.url, timeout_s=20)
    await store.apply(SCOPE, everything(CANARY))
    await store.apply(SCOPE, [DeleteSession(deletion(store))])
    await store.purge()
    assert not (tmp_path / "dump.rdb").exists()
    await store.close()
    server.kill()


@pytest.mark.req("A-30")
async def test_a_purge_that_the_server_refuses_is_still_to_be_done(
    saving: Server, tmp_path: Path
) -> None:
    server = saving

    def holds_it() -> list[bool]:
        """Whether the log and the snapshot have it; since Redis 7 the log is several files in a folder."""
        logs = [path for path in tmp_path.rglob("appendonly*") if path.is_file()]
        return [
            any(CANARY.encode() in file.read_bytes() for file in files)
            for files in (logs, [tmp_path / "dump.rdb"])
        ]

    store = RedisStore(server.url, timeout_s=20)
    await store.apply(SCOPE, everything(CANARY))
    with client_of(server.url) as client:
        client.save()
        await store.purge()  # nothing was deleted
        for _ in range(200):  # the server puts off writing its log while the disk is busy
            if holds_it()[0]:
                break
            await asyncio.sleep(0.05)
        assert holds_it() == [True, True]
        await store.apply(SCOPE, [DeleteSession(deletion(store))])
        client.execute_command("ACL", "SETUSER", "default", "-bgrewriteaof")
        with pytest.raises(StoreUnavailableError, match=r"may still stand.*BGREWRITEAOF"):
            await store.purge()
        assert holds_it()[0]
        client.execute_command("ACL", "SETUSER", "default", "+bgrewriteaof")
        fresh = RedisStore(server.url, timeout_s=20)
        await fresh.purge()
        assert holds_it() == [False, False]
        assert client.keys("*:purge") == []
    for each in (store, fresh):
        await each.close()
