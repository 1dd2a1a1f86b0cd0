"""Store access that never keeps the host waiting: bounded waits, a breaker, and writes that follow later."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import TypeVar

from ce_engine.config import StoreConfig
from ce_engine.errors import (
    ContextEngineError,
    FileDamagedError,
    SessionNotFoundError,
    StoreUnavailableError,
    VersionConflictError,
)
from ce_engine.ports import Store
from ce_engine.runtime.fork import renew_after_fork
from ce_engine.runtime.loop import LoopThread
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import (
    AppendEvents,
    AppendMessages,
    AppendModelUsage,
    AppendToolCalls,
    CreateSession,
    ForSession,
    PutEvidence,
    PutTurn,
    Write,
)
from ce_engine.schema.scope import Scope
from ce_engine.stores.waiting import settled


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
class Group:
    """A group of writes that was accepted.

    Attributes:
        future: ends when it landed, or with `None` if it was dropped.
        heard: ends with the first word of it: true if it landed; false if it was dropped, or follows
            later because the store is away.
    """

    scope: Scope
    writes: Sequence[Write]
    size: int
    landed: Landed | None
    future: Future[PutResult | None] = field(default_factory=Future)
    heard: Future[bool] = field(default_factory=Future)
    is_late: bool = False

    def tell(self, landed: bool) -> None:
        if not self.heard.done():
            self.heard.set_result(landed)

    def late(self) -> None:
        """Nobody waits for it any more; its messages say that they came late."""
        self.tell(landed=False)
        if self.is_late:
            return
        self.is_late = True
        for write in self.writes:
            if isinstance(write, AppendMessages):
                for row in write.rows:
                    row.late = True

    def end(self, result: PutResult | None) -> None:
        self.future.set_result(result)
        self.tell(landed=result is not None)


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
        self._reset()
        renew_after_fork(self._reset)

    def _reset(self) -> None:
        """Begin anew, as a forked child does: the parent writes what it accepted."""
        self._mutex = threading.Lock()
        self.breaker = Breaker(self._config.breaker_s)
        self._lost: dict[tuple[str, str, str], int] = {}
        self._groups: deque[Group] = deque()
        self._bytes = 0
        self._draining = False

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
            async with asyncio.timeout(self._config.deadline_s):
                return await ask()
        except TimeoutError:
            self.breaker.trip("too slow")
            raise StoreUnavailableError(
                f"the store did not answer within {self._config.deadline_s} s"
            ) from None
        except (VersionConflictError, FileDamagedError):  # which say nothing of other sessions
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

    def submit(self, scope: Scope, writes: Sequence[Write], landed: Landed | None = None) -> Group:
        """Accept a group of writes without waiting."""
        group = Group(scope, writes, _size(writes), landed)
        with self._mutex:
            if self.breaker.is_open():
                group.late()
            if self._bytes + group.size > self._config.buffer_bytes and self._bytes:
                self._count_lost(scope)
                group.end(None)
                return group
            self._groups.append(group)
            self._bytes += group.size
            start = not self._draining
            self._draining = True
        if start:
            self._loop.start(self._drain())
        return group

    async def wait(self, group: Group) -> bool:
        """Wait for a group within the deadline; false if it has not landed (it may later)."""
        if self.breaker.is_open() and not group.heard.done():
            return False
        if await settled(group.heard, self._config.deadline_s):
            return group.heard.result()
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

    async def settle(self, scope: Scope) -> bool:
        """Wait, within the deadline, for the groups of a session; false if they have not landed."""
        with self._mutex:
            groups = [group for group in self._groups if group.scope.key == scope.key]
        until = monotonic() + self._config.deadline_s
        for group in groups:
            if not await settled(group.heard, max(0.0, until - monotonic())):
                return False
        return all(group.future.done() for group in groups)

    async def _drain(self) -> None:
        try:
            while True:
                with self._mutex:
                    if not self._groups:
                        self._draining = False
                        return
                    group = self._groups[0]
                    self._bytes -= group.size
                    group.size = 0  # it is under way: however large, it takes nobody's room
                result = await self._write(group)
                with self._mutex:
                    self._groups.popleft()
                self._tell(group, result)
        except BaseException:
            with self._mutex:  # the loop is stopped: the next group starts it again
                self._draining = False
            raise

    def _tell(self, group: Group, result: PutResult | None) -> None:
        try:
            if result is not None and group.landed is not None:
                group.landed(result)
            lost = self._lost.pop(group.scope.key, 0) if result is not None else 0
            if lost and (writes := self._gap(group.scope, lost)):
                self._soon(group.scope, writes, group.landed)
        finally:
            group.end(result)

    def _soon(self, scope: Scope, writes: Sequence[Write], landed: Landed | None) -> None:
        with self._mutex:
            self._groups.append(Group(scope, writes, 0, landed))

    def _all_late(self) -> None:
        with self._mutex:
            for group in self._groups:
                group.late()

    def _count_lost(self, scope: Scope) -> None:
        self._lost[scope.key] = self._lost.get(scope.key, 0) + 1

    async def _write(self, group: Group) -> PutResult | None:
        while True:
            try:
                result = await self._store.apply(group.scope, group.writes)
            except FileDamagedError as error:
                self._refuse(group, error)
                return None
            except StoreUnavailableError as error:
                self.breaker.trip(error.code)
                self._all_late()
                await asyncio.sleep(self.breaker.remaining() or 0.01)
            except SessionNotFoundError:  # deleted meanwhile: nothing of it comes back
                if group.landed is not None:
                    group.landed(PutResult(success=False, version=0))
                return None
            except VersionConflictError:
                if not _without_keys(group):
                    self._count_lost(group.scope)
                    return None
            except Exception as error:  # noqa: BLE001 - a store of somebody else's may raise anything
                self._refuse(group, error)
                return None
            else:
                self.breaker.reset()
                return result

    def _refuse(self, group: Group, error: Exception) -> None:
        """It would fail again: drop this group rather than hold up all that follow."""
        why = error.code if isinstance(error, ContextEngineError) else type(error).__name__
        logger.warning("a group of records was refused (%s)", why)
        self._count_lost(group.scope)


def _without_keys(group: Group) -> bool:
    """Make a group fit a session that was there already; false if that is not what is wrong.

    Its rows were made while the store was away, with a salt of their own: nothing can recognise them
    by their fingerprints, so these go, and a host that resends them has them stored once more.
    """
    left = [write for write in group.writes if not isinstance(write, CreateSession | ForSession)]
    if len(left) == len(group.writes):
        return False
    for write in left:
        if isinstance(write, AppendMessages):
            for row in write.rows:
                row.key, row.loose_key, row.host_id = b"", b"", None
        elif isinstance(write, PutEvidence):
            write.row.dedup_key = b""
        elif isinstance(write, AppendEvents):
            for event in write.events:
                event.nonce = event.payload_mac = ""
    group.writes = left
    return True


def _size(writes: Sequence[Write]) -> int:
    """Roughly what a group holds in memory, in bytes."""
    size = 512
    for write in writes:
        if isinstance(write, AppendMessages):
            size += sum(2 * len(row.message.content) + 1024 for row in write.rows)
        elif isinstance(write, PutEvidence):
            evidence = write.row.evidence
            size += 2 * len(evidence.content) + len(str(evidence.metadata)) + 512
        elif isinstance(write, AppendEvents):
            size += sum(len(str(event.payload)) + 1024 for event in write.events)
        elif isinstance(write, AppendToolCalls):
            size += sum(len(str(row.call.args_digest)) + 512 for row in write.rows)
        elif isinstance(write, AppendModelUsage):
            size += sum(len(str(usage.params)) + 512 for usage in write.usages)
        elif isinstance(write, PutTurn):
            size += 200 * len(write.turn.report.get("prune_decisions", ())) + 2048
    return size
