"""Store access that never keeps the host waiting: bounded waits, a breaker, and writes that follow later."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import (
    Awaitable,
    Callable,
    Container,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Any, TypeVar, cast

from ce_engine.config import StoreConfig
from ce_engine.errors import (
    ContextEngineError,
    FileDamagedError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
    VersionConflictError,
)
from ce_engine.ports.store import Store
from ce_engine.runtime.bounded import Bounded
from ce_engine.runtime.breaker import Breaker
from ce_engine.runtime.context_variables import unset
from ce_engine.runtime.fork import renew_after_fork
from ce_engine.runtime.gaps import Gap, Gaps
from ce_engine.runtime.loop import LoopThread
from ce_engine.runtime.waiting import settled, within
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


T = TypeVar("T")
Landed = Callable[[PutResult], None]
Name = Callable[[Gap], None]

GRACE_BYTES_A_S, MAX_GRACE_S = 4_000_000, 2.0
"""What any store writes in a second: a turn has some 10 KB, a history that is new to us megabytes."""

_left: ContextVar[list[float] | None] = ContextVar("ce_store_wait_left", default=None)
"""How many seconds the phase that runs here may still wait for the store."""


AT_ONCE = 32
"""Sessions whose groups are handed to the store together: none waits for the answer to another's."""


@dataclass(slots=True, eq=False)
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
    conflicts: int = 0
    grace_s: float = field(init=False)
    """Seconds that writing it may take beside the deadline: a whole history is no store that is away."""

    def __post_init__(self) -> None:
        self.grace_s = self.size / GRACE_BYTES_A_S

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
    """Reads with a deadline, and groups of writes, a session's in the order of their submission.

    A group that the store does not take now stays, redacted as it is, in a buffer of bounded size,
    is written when the store is back, and is marked late. What no longer fits is dropped and counted,
    and `name` records how much that was, once the store takes records again and there is room.
    """

    def __init__(self, store: Store, loop: LoopThread, config: StoreConfig, name: Name) -> None:
        self._store = store
        self._name = name
        self._loop = loop
        self._config = config
        self._reset()
        renew_after_fork(self._reset)

    def _reset(self) -> None:
        """Begin anew, as a forked child does: the parent writes what it accepted."""
        self._mutex = threading.Lock()
        self._reads, self._writes = (Breaker(self._store, self._config.breaker_s) for _ in range(2))
        self._vouching: Future[None] = Future()
        self._vouching.set_result(None)
        self._gaps = Gaps()
        # Keys made here, while the store was away, for sessions that turned out to have another one.
        self._foreign: Bounded[str, None] = Bounded(1000)
        self._groups: deque[Group] = deque()
        self._bytes = 0
        self._draining = False

    @property
    def _late(self) -> str:
        return f"no answer within {self._config.deadline_s:g} s"

    @contextmanager
    def phase(self, seconds: float | None = None) -> Iterator[None]:
        """All waits for the store inside have one deadline together; `seconds` for who would rather wait."""
        token = _left.set([self._config.deadline_s if seconds is None else seconds])
        try:
            yield
        finally:
            unset(_left, token)

    @contextmanager
    def _waiting(self, grace_s: float = 0.0) -> Iterator[float]:
        """Give the seconds that may be waited now, and count those that were beyond the grace."""
        left, since = _left.get() or [self._config.deadline_s], monotonic()
        try:
            yield max(0.0, left[0]) + grace_s
        finally:
            left[0] -= max(0.0, monotonic() - since - grace_s)

    async def read(self, ask: Callable[[], Awaitable[T]], kind: Any) -> T:
        """Await a read of some `kind` (as of `isinstance`) within the deadline.

        Raises:
            StoreUnavailableError: the store failed, was too slow, or the breaker is open.
        """
        if self._reads.is_open():
            raise StoreUnavailableError(
                "the store was unavailable a moment ago; not asked again yet"
            )
        try:
            with self._waiting() as seconds:
                return _checked(await within(ask(), seconds), kind)
        except TimeoutError:
            self._unreadable(self._late)
            raise StoreUnavailableError(
                f"the store did not answer within {self._config.deadline_s} s"
            ) from None
        except (VersionConflictError, FileDamagedError):  # which say nothing of other sessions
            raise
        except ContextEngineError as error:
            self._unreadable(error)
            if isinstance(error, StoreUnavailableError):
                raise
            raise StoreUnavailableError(str(error)) from error
        except Exception as error:
            # A store of somebody else's may raise anything: it is as good as away.
            self._unreadable(error)
            raise StoreUnavailableError(f"the store raised {type(error).__name__}") from error

    def submit(self, scope: Scope, writes: Sequence[Write], landed: Landed | None = None) -> Group:
        """Accept a group of writes without waiting."""
        group = Group(scope, writes, _size(writes), landed)
        with self._mutex:
            if self._writes.is_open():
                group.late()
            if self._bytes + group.size > self._config.buffer_bytes and self._bytes:
                self._gaps.add(scope, writes)
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
        return await self._heard([group]) and group.heard.result()

    def refusal(self, scope: Scope) -> str:
        """The code with which the store refused records of a session; empty where it took them."""
        return self._gaps.refusal(scope)

    async def flush(self, timeout_s: float) -> bool:
        """Wait until everything accepted so far has landed; false if it has not in time."""
        with self._mutex:
            futures = [group.future for group in self._groups]
        until = monotonic() + timeout_s
        done = all([await settled(future, max(0.0, until - monotonic())) for future in futures])
        await settled(self._vouching, max(0.0, until - monotonic()))
        return done

    @property
    def waiting(self) -> int:
        """How many groups have not landed yet."""
        return len(self._groups)

    async def settle(self, scope: Scope) -> bool:
        """Wait, within the deadline, for the groups of a session; false if they have not landed."""
        with self._mutex:
            groups = [group for group in self._groups if group.scope.key == scope.key]
        return await self._heard(groups) and all(group.future.done() for group in groups)

    async def _heard(self, groups: Sequence[Group]) -> bool:
        """Wait for the first word of groups; false, and nobody waits for them again, if it is late."""
        with self._mutex:  # what is before them counts, too
            grace_s = sum(group.grace_s for group in self._groups if not group.is_late)
        with self._waiting(min(grace_s, MAX_GRACE_S)) as seconds:
            until = monotonic() + seconds
            for group in groups:
                if not await settled(group.heard, max(0.0, until - monotonic())):
                    self._away(self._late)
                    return False
        return True

    async def _drain(self) -> None:
        at_once = AT_ONCE
        try:
            while groups := self._next(at_once):
                if len(groups) == 1:
                    done = [await self._write(groups[0])]
                else:
                    done = await _all(map(self._write, groups))
                at_once = AT_ONCE if all(done) else 1  # while the store is away, one asks for all
        except BaseException:
            with self._mutex:  # the loop is stopped: the next group starts it again
                self._draining = False
            raise

    def _next(self, most: int) -> list[Group]:
        """The oldest groups, one a session; without any, nobody drains any more."""
        found: dict[Hashable, Group] = {}
        with self._mutex:
            for group in islice(self._groups, 2 * most):
                if len(found) < most:
                    found.setdefault(group.scope.key, group)
            for group in found.values():
                self._bytes -= group.size
                group.size = 0  # it is under way: however large, it takes nobody's room
            self._draining = bool(found)
        return list(found.values())

    def _end(self, group: Group, result: PutResult | None) -> None:
        """Tell of a group that the store has taken, or will never take."""
        if result is not None and group.is_late:
            self._vouch(group.scope)
        with self._mutex:
            self._groups.remove(group)
        self._tell(group, result)

    def _tell(self, group: Group, result: PutResult | None) -> None:
        try:
            if result is not None and group.landed is not None:
                group.landed(result)
            if result is not None and 2 * self._bytes <= self._config.buffer_bytes:
                for gap in self._gaps.pop(group.scope):
                    self._name(gap)
        finally:
            group.end(result)

    def _away(self, why: str | Exception) -> None:
        """The store takes no writes now: nobody waits for what is on its way."""
        self._writes.trip(why)
        with self._mutex:
            for group in self._groups:
                group.late()

    def _unreadable(self, why: str | Exception) -> None:
        self._away(why)
        self._reads.trip()

    def _vouch(self, scope: Scope) -> None:
        """What was late has landed: see whether the store can be read again, too; nobody waits for it."""

        async def ask() -> None:
            with suppress(Exception):
                await asyncio.wait_for(self._store.version(scope), self._config.deadline_s)
                self._reads.reset()

        if self._reads.is_open() and self._vouching.done():
            self._vouching = self._loop.submit(ask())

    async def _write(self, group: Group) -> bool:
        """Write a group; false if the store is away, and it is to be tried again."""
        result = None
        while True:
            _fit(group, self._foreign)
            try:
                result = await self._store.apply(group.scope, group.writes)
                result = _checked(result, PutResult)
            except FileDamagedError as error:
                self._refuse(group, error)
            except (StoreUnavailableError, OSError) as error:  # such as `ConnectionError`
                self._away(error)
                await asyncio.sleep(self._writes.remaining() or 0.01)
                return False
            except SessionNotFoundError:  # deleted meanwhile: nothing of it comes back
                if group.landed is not None:
                    group.landed(PutResult(success=False, version=0))
            except VersionConflictError as error:
                group.conflicts += 1  # once more as it is: whoever was faster has ended
                if group.conflicts == 1 or self._is_foreign(group):
                    continue
                self._refuse(group, error)
            except Exception as error:  # noqa: BLE001 - a store of somebody else's may raise anything
                self._refuse(group, error)
            else:
                self._taken(group)
            self._end(group, result)
            return True

    def _taken(self, group: Group) -> None:
        self._writes.reset()
        if group.conflicts == 1:
            self._gaps.note(group.scope, VersionConflictError.code)

    def _is_foreign(self, group: Group) -> bool:
        """Whether a group was made with a key that is not its session's; from now on that is known of it."""
        keys = _keys(group)
        self._foreign.update(dict.fromkeys(keys))
        return bool(keys)

    def _refuse(self, group: Group, error: Exception) -> None:
        """It would fail again: drop this group rather than hold up all that follow."""
        self._gaps.add(group.scope, group.writes, _code(error))


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all of it gives.

    Raises:
        BaseException: the first that one of them raised, when all have ended.
    """
    done = await asyncio.gather(*work, return_exceptions=True)
    for each in done:
        if isinstance(each, BaseException):
            raise each
    return cast("list[T]", done)


def _code(error: Exception) -> str:
    return error.code if isinstance(error, ContextEngineError) else type(error).__name__


def _checked(given: T, kind: Any) -> T:
    if not isinstance(given, kind):
        raise StoreError(f"the store gave {type(given).__name__}, expected {kind}")
    return given


def _keys(group: Group) -> list[str]:
    """The keys of the session that a group was made for."""
    return [w.key_id for w in group.writes if isinstance(w, CreateSession | ForSession)]


def _fit(group: Group, foreign: Container[str]) -> None:
    """Make a group of a `foreign` key fit its session, which was there already, under another one.

    Its rows were made while the store was away, with a salt of their own: nothing can recognise them
    by their fingerprints, so these go, and a host that resends them has them stored once more. With
    the key it would pass for a group of a session that was deleted since.
    """
    if not any(key in foreign for key in _keys(group)):
        return
    group.writes = [w for w in group.writes if not isinstance(w, CreateSession | ForSession)]
    for write in group.writes:
        if isinstance(write, AppendMessages):
            for row in write.rows:
                row.key, row.loose_key, row.host_id = b"", b"", None
        elif isinstance(write, PutEvidence):
            write.row.dedup_key = b""
        elif isinstance(write, AppendEvents):
            for event in write.events:
                event.nonce = event.payload_mac = ""


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
