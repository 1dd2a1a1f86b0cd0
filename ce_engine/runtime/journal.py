"""Store access that never keeps the host waiting: bounded waits, a breaker, and writes that follow later."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

from ce_engine.config import StoreConfig
from ce_engine.errors import ContextEngineError, StoreUnavailableError, VersionConflictError
from ce_engine.ports import Store
from ce_engine.runtime.loop import LoopThread
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import AppendMessages, CreateSession, PutEvidence, Write
from ce_engine.schema.scope import Scope


T = TypeVar("T")
Landed = Callable[[PutResult], None]
Gap = Callable[[Scope, int], Sequence[Write]]

logger = logging.getLogger("ce_engine.store")


class Breaker:
    """Open for a while after a failure: then nobody waits for the store (decision 10)."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = 0.0

    def is_open(self) -> bool:
        return monotonic() < self._until

    def trip(self, why: str) -> None:
        if not self.is_open():
            logger.warning(
                "the store is unavailable (%s); calls go on, recording follows when it is back", why
            )
        self._until = monotonic() + self._seconds

    def remaining(self) -> float:
        return max(0.0, self._until - monotonic())

    def reset(self) -> None:
        self._until = 0.0


@dataclass(slots=True)
class _Group:
    scope: Scope
    writes: Sequence[Write]
    size: int
    landed: Landed | None
    future: Future[PutResult | None] = field(default_factory=Future)
    tried: bool = False


class Journal:
    """Reads with a deadline, and groups of writes in the order of their submission.

    A group that the store does not take now stays, redacted as it is, in a buffer of bounded size,
    is written when the store is back, and is marked late. What no longer fits is dropped and counted,
    and `gap` makes the record that names it.
    """

    def __init__(self, store: Store, loop: LoopThread, config: StoreConfig, gap: Gap) -> None:
        self._store = store
        self._gap = gap
        self._loop = loop
        self._config = config
        self._mutex = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self.breaker = Breaker(self._config.breaker_s)
        self._lost: dict[tuple[str, str, str], int] = {}
        self._groups: deque[_Group] = deque()
        self._bytes = 0
        self._draining = False
        self._pid = os.getpid()

    async def read(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Await a read within the deadline.

        Raises:
            StoreUnavailableError: the store failed, was too slow, or the breaker is open.
        """
        if self.breaker.is_open():
            raise StoreUnavailableError(
                "the store was unavailable a moment ago; not asked again yet"
            )
        try:
            return await asyncio.wait_for(_awaited(ask), self._config.deadline_s)
        except TimeoutError:
            self.breaker.trip("too slow")
            raise StoreUnavailableError(
                f"the store did not answer within {self._config.deadline_s} s"
            ) from None
        except VersionConflictError:
            raise
        except ContextEngineError as error:
            self.breaker.trip(error.code)
            if isinstance(error, StoreUnavailableError):
                raise
            raise StoreUnavailableError(str(error)) from error
        except Exception as error:
            # A store of somebody else's may raise anything: it is as good as away.
            self.breaker.trip(type(error).__name__)
            raise StoreUnavailableError(f"the store raised {type(error).__name__}") from error

    def submit(
        self, scope: Scope, writes: Sequence[Write], landed: Landed | None = None
    ) -> Future[PutResult | None]:
        """Accept a group of writes without waiting; the future ends when it landed, or with `None` if dropped."""
        group = _Group(scope, writes, _size(writes), landed)
        with self._mutex:
            if self._pid != os.getpid():  # a forked child: the parent writes what it accepted
                self._reset()
            if self._bytes + group.size > self._config.buffer_bytes and self._groups:
                self._count_lost(scope)
                group.future.set_result(None)
                return group.future
            self._groups.append(group)
            self._bytes += group.size
            start = not self._draining
            self._draining = True
        if start:
            self._loop.submit(self._drain())
        return group.future

    async def wait(self, future: Future[PutResult | None]) -> bool:
        """Wait for a group within the deadline; false if it has not landed (it may later)."""
        if future.done():
            return future.result() is not None
        if self.breaker.is_open():
            return False
        if await settled(future, self._config.deadline_s):
            return future.result() is not None
        self.breaker.trip("too slow")
        return False

    async def flush(self, timeout_s: float) -> bool:
        """Wait until everything accepted so far has landed; false if it has not in time."""
        with self._mutex:
            futures = [group.future for group in self._groups]
        until = monotonic() + timeout_s
        return all([await settled(future, max(0.0, until - monotonic())) for future in futures])

    @property
    def waiting(self) -> int:
        """How many groups have not landed yet."""
        return len(self._groups)

    async def _drain(self) -> None:
        while True:
            with self._mutex:
                if not self._groups:
                    self._draining = False
                    return
                group = self._groups[0]
            result = await self._write(group)
            with self._mutex:
                self._groups.popleft()
                self._bytes -= group.size
            if result is not None and group.landed is not None:
                group.landed(result)
            group.future.set_result(result)
            if result is not None and (lost := self._lost.pop(group.scope.key, 0)):
                self.submit(group.scope, self._gap(group.scope, lost), group.landed)

    def _count_lost(self, scope: Scope) -> None:
        self._lost[scope.key] = self._lost.get(scope.key, 0) + 1

    async def _write(self, group: _Group) -> PutResult | None:
        while True:
            try:
                result = await self._store.apply(group.scope, group.writes)
            except StoreUnavailableError as error:
                self.breaker.trip(error.code)
                _mark_late(group)
                await asyncio.sleep(self.breaker.remaining() or 0.01)
            except VersionConflictError:
                if not _without_keys(group):
                    self._count_lost(group.scope)
                    return None
            except ContextEngineError as error:
                # It would fail again: drop this group rather than hold up all that follow.
                logger.warning("a group of records was refused (%s)", error.code)
                self._count_lost(group.scope)
                return None
            except Exception as error:  # noqa: BLE001 - a store of somebody else's may raise anything
                logger.warning("a group of records was refused (%s)", type(error).__name__)
                self._count_lost(group.scope)
                return None
            else:
                self.breaker.reset()
                return result


async def settled(future: Future[Any], timeout_s: float) -> bool:
    """Wait for a future of any thread; false when the time is over.

    `asyncio.wrap_future` would cancel the work with its waiter, and would call a closed loop.
    """
    if future.done():
        return True
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake(_: object) -> None:
        with suppress(RuntimeError):  # the waiter's loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_finish, waiter)

    future.add_done_callback(wake)
    try:
        await asyncio.wait_for(waiter, timeout_s)
    except TimeoutError:
        return False
    return True


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def _awaited(ask: Callable[[], Awaitable[T]]) -> T:
    return await ask()


def _mark_late(group: _Group) -> None:
    if group.tried:
        return
    group.tried = True
    for write in group.writes:
        if isinstance(write, AppendMessages):
            for row in write.rows:
                row.late = True


def _without_keys(group: _Group) -> bool:
    """Make a group fit a session that was there already; false if that is not what is wrong.

    Its rows were made while the store was away, with a salt of their own: nothing can recognise them
    by their fingerprints, so these go, and a host that resends them has them stored once more.
    """
    left = [write for write in group.writes if not isinstance(write, CreateSession)]
    if len(left) == len(group.writes):
        return False
    for write in left:
        if isinstance(write, AppendMessages):
            for row in write.rows:
                row.key, row.loose_key, row.host_id = b"", b"", None
        elif isinstance(write, PutEvidence):
            write.row.dedup_key = b""
    group.writes = left
    return True


def _size(writes: Sequence[Write]) -> int:
    size = 512
    for write in writes:
        if isinstance(write, AppendMessages):
            size += sum(len(row.message.content) + 512 for row in write.rows)
        elif isinstance(write, PutEvidence):
            size += len(write.row.evidence.content) + 512
    return size
