"""How much later an app is answered when the store is in trouble, beside the same app without us.

    python benchmarks/store_faults.py

Prints, a fault a line: the bare call, what the first call in trouble costs on top, and the median and
the worst of the calls after it, in milliseconds of one run.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage

from ce_engine import MemoryStore, Scope, Store, open_store
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import Write
from ce_integrations.langchain import install_ce


CALLS = 60


class Hanging(MemoryStore):
    hangs = False

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        if self.hangs:
            await asyncio.sleep(3600)
        return await super().apply(scope, writes, expected_version=expected_version)

    async def version(self, scope: Scope) -> tuple[int, int] | None:
        if self.hangs:
            await asyncio.sleep(3600)
        return await super().version(scope)


@contextmanager
def locked(path: Path, _: Store) -> Iterator[None]:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    yield
    holder.execute("ROLLBACK")
    holder.close()


@contextmanager
def deleted(path: Path, _: Store) -> Iterator[None]:
    for file in path.parent.iterdir():
        file.unlink()
    yield


@contextmanager
def read_only(path: Path, _: Store) -> Iterator[None]:
    for file in [*path.parent.iterdir(), path.parent]:
        file.chmod(0o555 if file.is_dir() else 0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)
    path.parent.chmod(0o777)


@contextmanager
def hung(_: Path, store: Store) -> Iterator[None]:
    assert isinstance(store, Hanging)
    store.hangs = True
    yield
    store.hangs = False


def timed(model: Any, said: list[HumanMessage]) -> float:
    said.append(HumanMessage(f"question {len(said)}"))
    start = time.perf_counter()
    model.invoke(said)
    return (time.perf_counter() - start) * 1000


Fault = Callable[[Path, Store], AbstractContextManager[None]]


def measure(fault: Fault, make: Callable[[Path], Store]) -> tuple[float, float, float, float]:
    bare_model = FakeListChatModel(responses=["ok"])
    said: list[HumanMessage] = []
    bare = statistics.median(timed(bare_model, said) for _ in range(CALLS))
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        path = Path(name) / "ce.db"
        store = make(path)
        model = FakeListChatModel(responses=["ok"])
        with install_ce(model, store=store, session_id="s") as installed:
            said = []
            for _ in range(5):
                timed(model, said)
            installed.flush()
            with fault(path, store):
                first = timed(model, said)
                later = [timed(model, said) for _ in range(CALLS)]
    return bare, first - bare, statistics.median(later) - bare, max(later) - bare


def sqlite(path: Path) -> Store:
    return open_store(f"sqlite:///{path}")


def main() -> None:
    cases: list[tuple[str, Fault, Callable[[Path], Store]]] = [
        ("none", lambda *_: nullcontext(), sqlite),
        ("locked", locked, sqlite),
        ("read_only", read_only, sqlite),
        ("deleted", deleted, sqlite),
        ("hung", hung, lambda _: Hanging()),
    ]
    print(f"{'fault':10} {'bare':>8} {'first +':>9} {'later p50 +':>12} {'later max +':>12}   ms")
    for name, fault, make in cases:
        bare, first, median, worst = measure(fault, make)
        print(f"{name:10} {bare:8.2f} {first:9.2f} {median:12.2f} {worst:12.2f}")


if __name__ == "__main__":
    main()
