"""The stores that many write to and that writers are killed at: files, or servers."""

from __future__ import annotations

import os
from pathlib import Path

from ce_engine.stores.documents.redis import RedisStore
from ce_engine.stores.encryption import cipher_of
from ce_engine.stores.tables import SqlStore
from tests import postgres_server
from tests.hosts import redis_host


KINDS = ("sqlite", "redis", "postgresql")
SHORTEST_S = 1.0
"""How long a Redis store waits as shipped."""


def url_at(path: Path, kind: str) -> str:
    """The URL of the store that a path stands for."""
    if kind == "sqlite":
        return f"sqlite:///{path}.db"
    os.environ.setdefault("CE_SECRET", "a secret of faults that is long enough")
    if kind == "postgresql":
        return postgres_server.url_at(path)
    return redis_host.url_at(path)


def copy(path: Path, to: Path, kind: str) -> None:
    """Give the store that one path stands for what another one has; files are copied with their folder."""
    if kind == "redis":
        redis_host.copy(url_at(path, kind), url_at(to, kind))
    if kind == "postgresql":
        postgres_server.copy(url_at(path, kind), url_at(to, kind))


def opened(url: str, wait_s: float) -> SqlStore | RedisStore:
    """Open the store, which waits so long for others; sealed where `CE_ENCRYPTION_KEY` says so."""
    store: SqlStore | RedisStore
    if url.startswith("redis"):
        store = RedisStore(url, timeout_s=max(wait_s, SHORTEST_S))
    else:
        store = SqlStore(url, lock_timeout_s=wait_s)
    store.encryption = cipher_of()
    return store


def seal() -> None:
    """Have all that is stored from now on sealed."""
    os.environ.setdefault("CE_ENCRYPTION_KEY", "a key of faults that is long enough to be one")
