"""Store access that never keeps the host waiting: bounded waits, a breaker, and writes that follow later."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import (
    Awaitable,
    Callable,
    Container,
    Hashable,
    Iterator,
    Sequence,
)
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from time import monotonic
from typing import Any, Protocol, TypeVar

from ce_engine.config import StoreConfig
from ce_engine.errors import (
    ContextEngineError,
    EncryptionKeyError,
    FileDamagedError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
    VersionConflictError,
)
from ce_engine.ports.store import Store
from ce_engine.runtime.bounded_dict import BoundedDict
from ce_engine.runtime.breaker import Breaker, cause
from ce_engine.runtime.context_variables import unset
from ce_engine.runtime.fork import renew_after_fork
from ce_engine.runtime.liveness import Liveness
from ce_engine.runtime.loop import LoopThread
from ce_engine.runtime.recording_gaps import Gap, Gaps
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


logger = logging.getLogger("ce_engine.store")

T = TypeVar("T")
Landed = Callable[[PutResult], None]
Name = Callable[[Gap], None]

GRACE_BYTES_A_S, MAX_GRACE_S = 4_000_000, 2.0
"""What any store writes in a second: a turn has some 10 KB, a history that is new to us megabytes."""

MAX_BUSY_S = 2.0
"""How much longer than its deadline a call waits for a store that answers others meanwhile: it is busy."""

_OF_ONE = FileDamagedError, EncryptionKeyError
"""What is away for one session, and says nothing of others: nobody else waits for it."""

_left: ContextVar[list[float] | None] = ContextVar("ce_store_wait_left", default=None)
"""How many seconds the phase that runs here may still wait for the store."""


class Companion(Protocol):
    """What goes with a group into another store: it is there before the group is written."""

    @property
    def writes(self) -> Sequence[Write]:
        """What it is."""

    async def put(self) -> None:
        """Store it, or see that it is stored.

        Raises:
            StoreUnavailableError: the other store is away; then the group waits, too.
        """

    async def withdraw(self) -> None:
        """Take it away again, if it was stored: the group was dropped."""


@dataclass(slots=True, eq=False)
class WriteGroup:
    """A group of writes that was accepted.

    Attributes:
        companion: what is to be in another store first.
        future: ends when it landed, or with `None` if it was dropped.
        heard: ends with the first word of it: true if it landed; false if it was dropped, or follows
            later because the store is away.
    """

    scope: Scope
    writes: Sequence[Write]
    size: int
    landed: Landed | None
    companion: Companion | None = None
    future: Future[PutResult | None] = field(default_factory=Future)
    heard: Future[bool] = field(default_factory=Future)
    is_late: bool = False
    conflicts: int = 0
    grace_s: float = field(init=False)
    """Seconds that writing it may take beside the deadline: a whole history is no store that is away."""

    def __post_init__(self) -> None:
        self.grace_s = self.size / GRACE_BYTES_A_S

    @property
    def has_landed(self) -> bool:
        """Whether it is stored."""
        return self.future.done() and self.future.result() is not None

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


class _AgainError(Exception):
    """A write is to be made once more."""


class Journal:
    """Reads with a deadline, and groups of writes, a session's in the order of their submission.

    A group that the store does not take now stays, redacted as it is, in a buffer of bounded size,
    is written when the store is back, and is marked late. What no longer fits is dropped and counted,
    and `name` records how much that was, once the store takes records again and there is room.
    """

    def __init__(
        self,
        store: Store,
        loop: LoopThread,
        config: StoreConfig,
        name: Name,
        on_trip: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._name, self._on_trip = name, on_trip
        self._loop = loop
        self._config = config
        self._reset()
        renew_after_fork(self._reset)

    def _reset(self) -> None:
        """Begin anew, as a forked child does: the parent writes what it accepted."""
        self._mutex = threading.Lock()
        self._reads, self._writes = (
            Breaker(self._store, self._config.breaker_s, partial(self._on_trip, access))
            for access in ("read", "write")
        )
        self._vouching: Future[None] = Future()
        self._vouching.set_result(None)
        self._gaps = Gaps()
        # Keys made here, while the store was away, for sessions that turned out to have another one.
        self._foreign: BoundedDict[str, None] = BoundedDict(1000)
        self._reading, self._writing = Liveness(), Liveness()
        self._queues: dict[
            Hashable, deque[WriteGroup]
        ] = {}  # of each session that is being written
        self._halted: set[Hashable] = set()  # those whose writing ended with the loop
        self._probe: Future[None] | None = None  # of the one that tries a store that is away
        self._bytes = 0
        self._is_key_told = False

    @property
    def _groups(self) -> Iterator[WriteGroup]:
        return chain.from_iterable(self._queues.values())

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

    def _patience(self, liveness: Liveness, seconds: float) -> Callable[[object], float]:
        """What may be waited longer than `seconds` for a store that answers others meanwhile."""
        until = monotonic() + seconds + MAX_BUSY_S

        def more(asker: object) -> float:
            left = self._config.deadline_s - liveness.quiet_s(asker)
            return min(left, until - monotonic())

        return more

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
                more, asker = self._patience(self._reading, seconds), id(_left.get())
                answer = _checked(await within(ask(), seconds, partial(more, asker)), kind)
                self._reading.answered(asker)
                return answer
        except TimeoutError:
            self._unreadable(self._late)
            raise StoreUnavailableError(
                f"the store did not answer within {self._config.deadline_s} s"
            ) from None
        except (VersionConflictError, *_OF_ONE) as error:
            self._tell_key(error)
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

    def submit(
        self,
        scope: Scope,
        writes: Sequence[Write],
        landed: Landed | None = None,
        companion: Companion | None = None,
    ) -> WriteGroup:
        """Accept a group of writes without waiting."""
        size = _size([*writes, *(companion.writes if companion is not None else ())])
        group = WriteGroup(scope, writes, size, landed, companion)
        with self._mutex:
            if self._writes.is_open():
                group.late()
            if self._bytes + group.size > self._config.buffer_bytes and self._bytes:
                self._gaps.add(scope, writes)
                group.end(None)
                return group
            halted, self._halted = self._halted, set()
            if scope.key not in self._queues:
                halted.add(scope.key)
            self._queues.setdefault(scope.key, deque()).append(group)
            self._bytes += group.size
        for key in halted:
            self._loop.start(self._drain(key))
        return group

    async def wait(self, group: WriteGroup) -> bool:
        """Wait for a group within the deadline; false if it has not landed (it may later)."""
        return await self._heard([group]) and group.heard.result()

    def refusal(self, scope: Scope) -> str:
        """The code with which records of a session were refused that are lost; empty where none was."""
        with self._mutex:
            return self._gaps.refusal(scope)

    async def flush(self, timeout_s: float) -> bool:
        """Wait until everything accepted so far has landed or was dropped; false if it has not in time."""
        with self._mutex:
            futures = [group.future for group in self._groups]
        until = monotonic() + timeout_s
        done = all([await settled(future, max(0.0, until - monotonic())) for future in futures])
        await settled(self._vouching, max(0.0, until - monotonic()))
        return done

    def pop_loss(self) -> bool:
        """Whether something was dropped since the last time that somebody asked."""
        with self._mutex:
            return self._gaps.pop_loss()

    @property
    def waiting(self) -> int:
        """How many groups have not landed yet."""
        with self._mutex:
            return sum(map(len, self._queues.values()))

    async def settle(self, scope: Scope) -> bool:
        """Wait, within the deadline, for the groups of a session; false if they have not landed."""
        with self._mutex:
            groups = list(self._queues.get(scope.key, ()))
        return await self._heard(groups) and all(group.future.done() for group in groups)

    async def _heard(self, groups: Sequence[WriteGroup]) -> bool:
        """Wait for the first word of groups; false, and nobody waits for them again, if it is late."""
        with self._mutex:  # what is before them counts, too
            grace_s = sum(group.grace_s for group in self._groups if not group.is_late)
        with self._waiting(min(grace_s, MAX_GRACE_S)) as seconds:
            until = monotonic() + seconds
            for group in groups:
                left = max(0.0, until - monotonic())
                more = partial(self._patience(self._writing, left), group.future)
                if not await settled(group.heard, left, more):
                    self._away(self._late)
                    return False
        return True

    async def _drain(self, key: Hashable) -> None:
        """Write a session's groups, one after another; no session waits for another's."""
        try:
            while group := self._next(key):
                result = await self._write(group)
                if result is not None and group.is_late:
                    self._vouch(group.scope)
                if result is None and group.companion is not None:
                    await group.companion.withdraw()
                with self._mutex:
                    self._queues[key].popleft()
                self._tell(group, result)
        except BaseException:
            with self._mutex:  # the loop is stopped: the next group starts it again
                self._halted.add(key)
            raise

    def _next(self, key: Hashable) -> WriteGroup | None:
        with self._mutex:
            if not (queue := self._queues[key]):
                del self._queues[key]
                return None
            self._bytes -= queue[0].size
            queue[0].size = 0  # it is under way: however large, it takes nobody's room
            return queue[0]

    def _tell(self, group: WriteGroup, result: PutResult | None) -> None:
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

    async def _write(self, group: WriteGroup) -> PutResult | None:
        """Write a group, however long that takes; `None` if it was dropped.

        While the store is away one group asks whether it is back, and all others wait for that one.
        """
        own: Future[None] | None = None
        try:
            while True:
                if own is None and self._probe is not None:
                    await settled(self._probe)
                    continue
                try:
                    return await self._write_once(group)
                except _AgainError:
                    continue
                except (StoreUnavailableError, OSError) as error:  # such as `ConnectionError`
                    self._away(error)
                if self._probe is None:
                    own = self._probe = Future()
                if own is not None:
                    await asyncio.sleep(self._writes.remaining() or 0.01)
        finally:
            if own is not None:
                self._probe = None
                own.set_result(None)

    async def _write_once(self, group: WriteGroup) -> PutResult | None:
        """Ask the store once.

        Raises:
            StoreUnavailableError: it is away; so says an `OSError`.
            _AgainError: somebody else was faster.
        """
        _fit(group, self._foreign)
        try:
            if group.companion is not None:
                await group.companion.put()
            result = _checked(await self._store.apply(group.scope, group.writes), PutResult)
        except _OF_ONE as error:
            self._tell_key(error)
            self._refuse(group, error)
        except (StoreUnavailableError, OSError):
            raise
        except SessionNotFoundError:  # deleted meanwhile: nothing of it comes back
            self._gaps.tell_late(group.writes)
            if group.landed is not None:
                group.landed(PutResult(success=False, version=0))
        except VersionConflictError as error:
            group.conflicts += 1  # once more as it is: whoever was faster has ended
            if group.conflicts == 1 or self._is_foreign(group):
                raise _AgainError from None
            self._refuse(group, error)
        except Exception as error:  # noqa: BLE001 - a store of somebody else's may raise anything
            self._refuse(group, error)
        else:
            self._note_success(group)
            return result
        return None

    def _note_success(self, group: WriteGroup) -> None:
        self._writes.reset()
        self._writing.answered(group.future)
        if group.conflicts == 1:
            self._gaps.note(group.scope, VersionConflictError.code)

    def _is_foreign(self, group: WriteGroup) -> bool:
        """Whether a group was made with a key that is not its session's; from now on that is known of it."""
        keys = _keys(group)
        self._foreign.update(dict.fromkeys(keys))
        return bool(keys)

    def _tell_key(self, error: Exception) -> None:
        """Name the key that is missing, and the cure: once, as all sessions may be sealed with it."""
        if isinstance(error, EncryptionKeyError) and not self._is_key_told:
            self._is_key_told = True
            logger.warning("a session is neither read nor added to: %s", cause(self._store, error))

    def _refuse(self, group: WriteGroup, error: Exception) -> None:
        """It would fail again: drop this group rather than hold up all that follow."""
        self._gaps.add(group.scope, group.writes, _code(error))


def _code(error: Exception) -> str:
    return error.code if isinstance(error, ContextEngineError) else type(error).__name__


def _checked(answer: T, kind: Any) -> T:
    if not isinstance(answer, kind):
        raise StoreError(f"the store gave {type(answer).__name__}, expected {kind}")
    return answer


def _keys(group: WriteGroup) -> list[str]:
    """The keys of the session that a group was made for."""
    return [w.key_id for w in group.writes if isinstance(w, CreateSession | ForSession)]


def _fit(group: WriteGroup, foreign: Container[str]) -> None:
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
