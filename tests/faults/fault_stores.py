"""The stores that many write to and that writers are killed at: an SQLite file, or a Redis server."""

from __future__ import annotations

import os
from pathlib import Path

from ce_engine.stores.documents.redis import RedisStore
from ce_engine.stores.tables import SqlStore
from tests.hosts import redis_host


KINDS = ("sqlite", "redis")
SHORTEST_S = 1.0
"""How long a Redis store waits as shipped."""


def url_at(path: Path, kind: str) -> str:
    """The URL of the store that a path stands for."""
    if kind == "sqlite":
        return f"sqlite:///{path}.db"
    os.environ.setdefault("CE_SECRET", "a secret of faults that is long enough")
    return redis_host.url_at(path)


def opened(url: str, wait_s: float) -> SqlStore | RedisStore:
    """Open the store, which waits so long for others."""
    if url.startswith("redis"):
        return RedisStore(url, timeout_s=max(wait_s, SHORTEST_S))
    return SqlStore(url, lock_timeout_s=wait_s)
