"""A store on this machine, as its tests use it: a file `ce.db`, a folder, or `NAME.redis` for a server."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ce_engine.ports.store import Store
from ce_engine.schema.event_chain import verify_chain
from ce_engine.schema.ids import chain_keys
from ce_engine.schema.rows import AppendEvents, AppendMessages
from ce_engine.stores.documents.file import FileStore
from ce_engine.stores.documents.redis import RedisStore
from ce_engine.stores.tables import SqlStore
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE, bare_row
from ce_engine.testing.store_reading import read_state
from tests.hosts import redis_host


FORK = multiprocessing.get_context("fork")


def open_at(path: Path) -> SqlStore | FileStore | RedisStore:
    """Open the store; it waits long for locks: other tests share the machine."""
    if path.suffix == ".redis":
        return RedisStore(redis_host.url_at(path), timeout_s=30)
    if path.suffix == ".db":
        return SqlStore(f"sqlite:///{path}", lock_timeout_s=30)
    return FileStore(path.as_uri(), lock_timeout_s=30)


def opening(path: Path) -> str:
    """`open_at` as code."""
    if path.suffix == ".redis":
        return f"RedisStore({redis_host.url_at(path)!r}, timeout_s=30)"
    if path.suffix == ".db":
        return f"SqlStore('sqlite:///{path}', lock_timeout_s=30)"
    return f"FileStore({path.as_uri()!r}, lock_timeout_s=30)"


def run(path: Path, work: Callable[[Store], Any]) -> Any:
    async def main() -> Any:
        store = open_at(path)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(main())


def append(*names: str) -> Callable[[Store], Any]:
    async def work(store: Store) -> None:
        for name in names:
            events = AppendEvents([samples.event(f"v-{name}")])
            await store.apply(SCOPE, [AppendMessages([bare_row(name)]), events])

    return work


def check_chain(path: Path, count: int) -> None:
    async def work(store: Store) -> None:
        state = await read_state(store)
        events = await store.list_events(SCOPE)
        assert [row.message.seq for row in state.rows] == list(range(1, count + 1))
        assert len(events) == count
        assert (
            verify_chain(events, state.head.chain_head, chain_keys(store.secret, SCOPE.key)) is None
        )

    run(path, work)


@contextmanager
def nobody() -> Iterator[None]:
    """Be a user who may write only what is everybody's: permissions do not bind root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that every user can come to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
