"""A store that hangs, refuses, raises or answers garbage, as it is told to, at any time and from any thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, cast

from ce_engine import Store
from ce_engine.errors import StoreUnavailableError


READS = frozenset({"version", "state", "get_setting", "list_tasks", "list_context_blocks"})
WRITES = frozenset({"apply"})

AWAY = ("refuses", "hangs", "raises")
"""Troubles in which nothing of the store works."""
HALF = ("reads hang", "reads refuse", "reads are garbage", "writes hang", "writes refuse")
"""Troubles in which the other half works, and nothing is lost."""
LOSES = ("writes are garbage", "writes raise")
"""Troubles in which what is written is lost: the store does not say that it is away."""
GARBAGE: tuple[object, ...] = ("garbage", 7, {"messages": None}, [None, 3], object())


class Troubled:
    """Stands before a store; attributes that the engine does not ask in a call are the store's own.

    Attributes:
        trouble: what is wrong now; "" if nothing is.
        pause_s: how long each answer takes.
        met: how often each trouble was met by a question of the engine.
    """

    def __init__(self, inner: Store, seed: int = 0) -> None:
        self.inner = inner
        self.trouble = ""
        self.pause_s = 0.0
        self.met: Counter[str] = Counter()
        self._random = Random(seed)

    @property
    def as_store(self) -> Store:
        return cast("Store", self)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return self._gated(name, found) if name in READS | WRITES else found

    def _gated(
        self, name: str, ask: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        async def gated(*args: Any, **options: Any) -> Any:
            what = self._wrong(name)
            if what:
                self.met[self.trouble] += 1
            while what.startswith("hang"):
                await asyncio.sleep(0.005)
                what = self._wrong(name)
            if what.startswith("refuse"):
                raise StoreUnavailableError("switched off")
            if what == "raises":
                raise ConnectionResetError
            if what == "raise":
                raise ZeroDivisionError
            if what == "are garbage":
                return self._random.choice(GARBAGE)
            if self.pause_s:
                await asyncio.sleep(self.pause_s)
            return await ask(*args, **options)

        return gated

    def _wrong(self, name: str) -> str:
        """What is wrong with this question: "hangs", "refuses", "raises", "are garbage" or nothing."""
        whose, _, what = self.trouble.partition(" ")
        if not what:
            return whose
        return what if (name in WRITES) == (whose == "writes") else ""
