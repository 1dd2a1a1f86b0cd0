"""A new store of each kind, by its URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import postgres_server
from tests.hosts import redis_host


KINDS = ("memory", "sqlite", "file", "postgresql", "redis")


@contextmanager
def store_url(kind: str, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty store of this kind; a server's is skipped where there is none."""
    if kind == "memory":
        yield "memory://"
    elif kind == "sqlite":
        yield f"sqlite:///{folder / 'ce.db'}"
    elif kind == "file":
        yield f"file://{folder / 'sessions'}"
    else:
        patch.setenv("CE_SECRET", "a secret that the hosts of these tests share")
        if kind == "redis":
            url = redis_host.fresh_url()
            try:
                yield url
            finally:  # tests that look through the server's files share it
                redis_host.forget(url)
            return
        if not postgres_server.IS_THERE:
            pytest.skip("no PostgreSQL: see tests/postgres_server.py")
        with postgres_server.new_schema() as url:
            yield url
