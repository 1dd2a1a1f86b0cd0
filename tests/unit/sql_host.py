"""A store in a file, as the tests of the SQL store use it."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ce_engine.schema.events import verify_chain
from ce_engine.schema.ids import chain_key
from ce_engine.schema.rows import AppendEvents, AppendMessages
from ce_engine.stores.sql import SqlStore
from ce_engine.testing import samples
from ce_engine.testing.samples import SCOPE, bare_row
from ce_engine.testing.store_reading import read_state


FORK = multiprocessing.get_context("fork")


def open_at(path: Path) -> SqlStore:
    """Open a store that waits long for locks: other tests share the machine."""
    return SqlStore(f"sqlite:///{path}", lock_timeout_s=30)


def run(path: Path, work: Callable[[SqlStore], Any]) -> Any:
    async def main() -> Any:
        store = open_at(path)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(main())


def append(*names: str) -> Callable[[SqlStore], Any]:
    async def work(store: SqlStore) -> None:
        for name in names:
            events = AppendEvents([samples.event(f"v-{name}")])
            await store.apply(SCOPE, [AppendMessages([bare_row(name)]), events])

    return work


def check_chain(path: Path, count: int) -> None:
    async def work(store: SqlStore) -> None:
        state = await read_state(store)
        events = await store.list_events(SCOPE)
        assert [row.message.seq for row in state.rows] == list(range(1, count + 1))
        assert len(events) == count
        assert verify_chain(events, state.head.chain_head, chain_key(store.secret)) is None

    run(path, work)
