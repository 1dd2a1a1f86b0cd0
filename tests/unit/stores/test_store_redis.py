"""The Redis store: the contract, expiry, its URL, what it says when the server is away."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ce_engine.ports.store import Store
from ce_engine.stores.documents.redis import RedisStore, shelf
from ce_engine.testing import StoreContract
from tests.hosts import redis_host


SECRET = "a secret of tests that is long enough"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", SECRET)


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
