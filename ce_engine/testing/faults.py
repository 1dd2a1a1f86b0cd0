"""Trouble for an SQLite store, on purpose: locked, full, read-only, deleted; and a store to switch off."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from ce_engine.errors import StoreUnavailableError
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import SessionState, Write
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting, Standing, Versions
from ce_engine.stores.documents.memory import MemoryStore


Fault = Callable[[Path], AbstractContextManager[None]]
"""Trouble for the file at a path, as long as the context lasts."""

NOBODY = 65534
"""A user that permissions bind; they do not bind root."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program holds the file."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


@contextmanager
def full(path: Path) -> Iterator[None]:
    """No page more than the file has: SQLite itself answers that the disk is full."""
    del path

    def before(_: Any, cursor: Any, *__: object) -> None:
        cursor.execute("PRAGMA max_page_count = 1")

    event.listen(Engine, "before_cursor_execute", before)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", before)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """The files and their folder may only be read. What is open already stays open for writing."""
    files = [path.parent, *path.parent.iterdir()]
    modes = {file: file.stat().st_mode for file in files}
    for file in files:
        file.chmod(0o555 if file.is_dir() else 0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for file, mode in modes.items():
            if file.exists():
                file.chmod(mode)


@contextmanager
def deleted(path: Path) -> Iterator[None]:
    """Somebody deletes the files while they are open."""
    for file in path.parent.iterdir():
        file.unlink()
    yield


FAULTS: tuple[Fault, ...] = (locked, full, read_only, deleted)


class SwitchStore(MemoryStore):
    """A store that can be made to hang or to refuse, at any time and from any thread.

    Attributes:
        hangs: what it is asked waits until this is false again.
        refuses: what it is asked raises `StoreUnavailableError`.
        asked: how often it was asked.
        waiting: how many wait now.
    """

    def __init__(self, *, hangs: bool = False, refuses: bool = False) -> None:
        super().__init__()
        self.hangs, self.refuses = hangs, refuses
        self.asked = self.waiting = 0

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        await self._gate()
        return await super().apply(scope, writes, expected_version=expected_version)

    async def version(self, scope: Scope) -> Versions:
        await self._gate()
        return await super().version(scope)

    async def state(
        self, scope: Scope, *, after_seq: int = 0, after_evidence: int = 0
    ) -> SessionState | None:
        await self._gate()
        return await super().state(scope, after_seq=after_seq, after_evidence=after_evidence)

    async def get_setting(self, scope: Scope, name: str) -> Setting | None:
        await self._gate()
        return await super().get_setting(scope, name)

    async def put_setting(
        self,
        scope: Scope,
        name: str,
        value: Any,
        expected_version: int | None = None,
        *,
        standing: Standing = Standing.INTACT,
    ) -> int:
        await self._gate()
        return await super().put_setting(scope, name, value, expected_version, standing=standing)

    async def _gate(self) -> None:
        self.asked += 1
        if self.refuses:
            raise StoreUnavailableError("switched off")
        self.waiting += 1
        try:
            while self.hangs:  # noqa: ASYNC110 - set from another thread
                await asyncio.sleep(0.01)
        finally:
            self.waiting -= 1
