"""The contract of `ports.Store` over PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from ce_engine.ports.store import Store
from ce_engine.stores.tables import SqlStore
from ce_engine.testing import StoreContract
from tests.postgres_server import IS_THERE, bytes_in, new_schema


pytestmark = pytest.mark.skipif(not IS_THERE, reason="no PostgreSQL: see tests/postgres_server.py")


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CE_SECRET", "a secret that the hosts of these tests share")
    with new_schema() as made:
        yield made


class TestPostgresStore(StoreContract):
    @pytest.fixture
    async def store(self, url: str) -> AsyncIterator[Store]:
        store = SqlStore(url, lock_timeout_s=20)
        yield store
        await store.close()

    def bytes_of(self, store: Store) -> bytes:
        return bytes_in(store.url)
