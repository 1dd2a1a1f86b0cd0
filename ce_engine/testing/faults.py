"""Trouble for an SQLite store, on purpose: locked, full, read-only, deleted; and a store that hangs."""

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

from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import Write
from ce_engine.schema.scope import Scope
from ce_engine.stores.memory import MemoryStore


Fault = Callable[[Path], AbstractContextManager[None]]
"""Trouble for the file at a path, as long as the context lasts."""

NOBODY = 65534
"""A user that permissions bind; they do not bind root."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program holds the file."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    yield
    holder.execute("ROLLBACK")
    holder.close()


@contextmanager
def full(path: Path) -> Iterator[None]:
    """No page more than the file has: SQLite itself answers that the disk is full."""
    del path

    def before(_: Any, cursor: Any, *__: object) -> None:
        cursor.execute("PRAGMA max_page_count = 1")

    event.listen(Engine, "before_cursor_execute", before)
    yield
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
    yield
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


class HangingStore(MemoryStore):
    """A store that, as long as it `hangs`, never answers."""

    def __init__(self, *, hangs: bool = True) -> None:
        super().__init__()
        self.hangs = hangs

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        await self._hang()
        return await super().apply(scope, writes, expected_version=expected_version)

    async def version(self, scope: Scope) -> tuple[int, int] | None:
        await self._hang()
        return await super().version(scope)

    async def _hang(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
