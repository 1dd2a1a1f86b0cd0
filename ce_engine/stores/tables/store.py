"""The SQL store: every transaction is one function on a thread of the store's own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import finalize

from sqlalchemy import Connection, update
from sqlalchemy.exc import IntegrityError

from ce_engine.errors import FileDamagedError
from ce_engine.ports.ids import Clock, IdGenerator
from ce_engine.schema.document import ContextBlock, Evidence, SessionDocument, Task
from ce_engine.schema.events import ContentCheck, Event
from ce_engine.schema.report import BlockFilter, EvidenceFilter, PutResult
from ce_engine.schema.rows import (
    DeleteEvidence,
    DeleteSession,
    EventChain,
    EvidenceRow,
    SessionInfo,
    SessionState,
    TurnRow,
    Write,
)
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting, SettingsCheck, Standing, Versions
from ce_engine.stores import owner_settings as owned
from ce_engine.stores import row_rules, sealing
from ce_engine.stores.base import MARK, SEALED_BY, BaseStore, must_be_marked
from ce_engine.stores.fork import survive_fork
from ce_engine.stores.tables import checking, foreign, reads, resealing, settings, tables
from ce_engine.stores.tables.dialect import Database, Run
from ce_engine.stores.tables.link import Link, Work
from ce_engine.stores.tables.writes import apply as apply_group
from ce_engine.stores.threads import WorkerQueue, ended, outcome, stop_all
from ce_engine.stores.urls import masked, scheme_of, sqlite_path


if TYPE_CHECKING:
    from ce_engine.stores.documents.session import CheckedSession, StoredSession

T = TypeVar("T")

_READERS = 3
"""For what may take long: a whole session, a list of them. Single rows have a reader of their own, so
that no call waits while another session is read (D-13)."""
_PURGE_S = 5.0
"""How long a purge waits for others to let go of the file."""
_LAST_WORDS_S = 5.0
"""How long an exiting interpreter, and who closes a store, waits for each write that was accepted."""

_SPOILT = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError)
"""Raised by values that are not of their column's type: SQLite keeps what somebody puts there."""
_DELETIONS = (DeleteSession, DeleteEvidence)
_TOUCH = update(tables.revisions).values(version_num=tables.revisions.c.version_num)

_never_closed: list[Link] = []
"""A forked child's copies of connections that were busy in the parent: closing them would harm it."""


def database_of(url: str, lock_timeout_s: float) -> Database:
    """The database that a URL names, spoken to in its own dialect."""
    if scheme_of(url) == "postgresql":
        from ce_engine.stores.tables.postgres import PostgresDatabase  # noqa: PLC0415 - an extra

        return PostgresDatabase(url, lock_timeout_s)
    from ce_engine.stores.tables.sqlite import SqliteDatabase  # noqa: PLC0415 - only here

    return SqliteDatabase(sqlite_path(url))


class SqlStore(BaseStore):
    """Sessions in an SQLite file or in PostgreSQL; several processes may share it. See `ports.Store` for the contract.

    Opening is lazy: the file is looked at with the first read and made with the first write. A
    locked file is tried again for `lock_timeout_s` seconds.

    Raises:
        StoreUrlError: the URL names no database.
    """

    _admits_itself = True

    def __init__(
        self,
        url: str,
        *,
        lock_timeout_s: float = 0.2,
        clock: Clock | None = None,
        ids: IdGenerator | None = None,
    ) -> None:
        super().__init__(clock=clock, ids=ids)
        self._url = url
        self._timeout_s = lock_timeout_s
        self._database = database_of(url, lock_timeout_s)
        self._secret: bytes | None = None
        self._links = self._new_links()
        self._lookups = WorkerQueue("lookup", self._links[:1])
        self._readers = WorkerQueue("reader", self._links[1 : 1 + _READERS])
        self._writers = [WorkerQueue("writer", [link]) for link in self._links[1 + _READERS :]]
        self._resting: list[Link] = []
        finalize(self, stop_all, (self._lookups, self._readers, *self._writers), _LAST_WORDS_S)
        survive_fork(self)

    def _new_links(self) -> list[Link]:
        count = 1 + _READERS + self._database.WRITERS
        links = [Link(self._database) for _ in range(count)]
        if self._database.SHARES:
            for link in links:
                link.peers = links
        return links

    @property
    def url(self) -> str:
        """Where the sessions are; `***` stands for a password."""
        return masked(self._url)

    def use_secret(self, value: bytes) -> None:
        """Have another store's secret, and no key file: for an archive."""
        self._secret = value

    @property
    def secret(self) -> bytes:
        if self._secret is None:
            self._secret = self._database.secret()
        return self._secret

    def _get_secret(self) -> bytes:
        return self.secret

    def check_place(self) -> None:
        self._database.check_place()

    async def apply(
        self, scope: Scope, writes: Sequence[Write], *, expected_version: int | None = None
    ) -> PutResult:
        now = self._clock.now_iso()
        row_rules.check_kinds(writes)

        def work(connection: Connection, *, repeats: bool = False) -> PutResult:
            if any(isinstance(write, _DELETIONS) for write in writes):
                self._database.mark(connection)
            return apply_group(
                connection,
                scope,
                writes,
                expected_version,
                now,
                lambda: self.secret,
                repeats=repeats,
            )

        try:
            return await self._write(work, scope.key)
        except IntegrityError:  # written before, by an attempt of which nobody heard
            return await self._write(partial(work, repeats=True), scope.key)

    async def state(
        self, scope: Scope, *, after_seq: int = 0, after_evidence: int = 0
    ) -> SessionState | None:
        def read(connection: Connection) -> SessionState | None:
            state = reads.state(connection, scope, after_seq, after_evidence)
            if state is not None and state.head.project_id != scope.project_id:
                checking.check_row(connection, scope, self.secret)
            return state

        return await self._read(read, None)

    async def version(self, scope: Scope) -> Versions:
        return await self._read(lambda c: reads.version(c, scope), Versions(), begin="")

    async def get_setting(self, scope: Scope, name: str) -> Setting | None:
        return await self._read(
            lambda c: settings.get(c, scope, name, self._get_secret), None, begin=""
        )

    async def put_setting(
        self,
        scope: Scope,
        name: str,
        value: Any,
        expected_version: int | None = None,
        *,
        standing: Standing = Standing.INTACT,
    ) -> int:
        owned.check_value(name, value)

        def work(connection: Connection) -> int:
            self._database.lock_settings(connection)
            return settings.put(
                connection, scope, name, value, expected_version, self._get_secret, standing
            )

        return await self._write(work)

    async def delete_settings(self, account_id: str, user_id: str) -> int:
        def work(connection: Connection) -> int:
            self._database.lock_settings(connection)
            if count := settings.delete(connection, account_id, user_id, self._get_secret):
                self._database.mark(connection)
            return count

        return await self._write(work)

    async def get_session(self, scope: Scope) -> SessionDocument | None:
        return await self._read(lambda c: reads.session(c, scope), None)

    async def list_sessions(
        self,
        *,
        account_id: str = "",
        user_id: str | None = "",
        ephemeral: bool = False,
        since: str = "",
        limit: int | None = None,
    ) -> list[SessionInfo]:
        return await self._read(
            lambda c: reads.list_sessions(c, account_id, user_id, ephemeral, since, limit), []
        )

    async def get_evidence(self, scope: Scope, evidence_id: str) -> Evidence | None:
        rows = await self.evidence_rows(scope, [evidence_id])
        return rows[0].evidence if rows else None

    async def list_evidences(
        self, scope: Scope, filter: EvidenceFilter | None = None
    ) -> list[Evidence]:
        return await self._read(lambda c: reads.list_evidences(c, scope, filter), [])

    async def evidence_rows(self, scope: Scope, ids: Sequence[str]) -> list[EvidenceRow]:
        return await self._read(lambda c: reads.evidence_rows(c, scope, ids), [])

    async def list_context_blocks(
        self, scope: Scope, filter: BlockFilter | None = None
    ) -> list[ContextBlock]:
        return await self._read(lambda c: reads.list_blocks(c, scope, filter), [])

    async def list_tasks(self, scope: Scope) -> list[Task]:
        return await self._read(lambda c: reads.list_tasks(c, scope), [])

    async def list_turns(self, scope: Scope) -> list[TurnRow]:
        return await self._read(lambda c: reads.list_turns(c, scope), [])

    async def list_events(self, scope: Scope) -> list[Event]:
        return row_rules.own_events(scope, await self.chain(scope))

    async def chain(self, scope: Scope) -> EventChain | None:
        return await self._read(lambda c: reads.chain(c, scope), None)

    async def list_keys(self) -> list[tuple[str, str, str]]:
        return await self._read(reads.keys, [])

    async def check_content(self, scope: Scope) -> ContentCheck | None:
        return await self._read(lambda c: checking.check(c, scope, self.secret), None)

    async def index_faults(self) -> list[str]:
        return await self._read(foreign.index_faults, [])

    async def whole(self, scope: Scope) -> StoredSession | None:
        from ce_engine.stores.tables import whole_session  # noqa: PLC0415 - for copies alone

        return await self._read(lambda c: whole_session.read_whole(c, scope), None)

    async def checked(self, scope: Scope) -> CheckedSession | None:
        from ce_engine.stores.tables import whole_session  # noqa: PLC0415

        return await self._read(lambda c: whole_session.read_checked(c, scope, self.secret), None)

    async def put_whole(
        self, scope: Scope, session: StoredSession, expected_version: int = 0
    ) -> None:
        from ce_engine.stores.tables import whole_session  # noqa: PLC0415

        await self._write(
            lambda c: whole_session.put_whole(c, scope, session, expected_version, self.secret),
            scope.key,
        )

    async def list_settings(self) -> dict[tuple[str, ...], Setting]:
        return await self._read(lambda c: settings.list_all(c, self._get_secret), {})

    async def check_settings(
        self, account_id: str | None = None, user_id: str | None = None
    ) -> dict[tuple[str, str, str], SettingsCheck]:
        return await self._read(
            lambda c: settings.check(c, self._get_secret, account_id, user_id), {}
        )

    async def damaged(self, account_id: str | None = None, user_id: str | None = None) -> list[str]:
        if (account_id, user_id) != (None, None):
            return []  # nobody knows whose they are
        return await self._read(
            lambda c: reads.nameless(c) + settings.nameless(c) + foreign.sentences(c), []
        )

    async def reseal(self, scope: Scope) -> bool:
        now, key_id = self._clock.now_iso(), sealing.key_id()
        return await self._write(
            lambda c: self._marked(c, resealing.reseal(c, scope, now, self.secret, key_id)),
            scope.key,
        )

    async def reseal_settings(self) -> int:
        key_id = sealing.key_id()
        done, wrong = await self._write(lambda c: self._resealed(c, key_id))
        if wrong:
            raise FileDamagedError(
                f"{'; '.join(wrong)}. It was left as it is, and all others are sealed: set it anew, or delete it "
                "with its user"
            )
        return done

    def _resealed(self, connection: Connection, key_id: str) -> tuple[int, list[str]]:
        done, wrong = resealing.reseal_settings(connection, key_id)
        return self._marked(connection, done), wrong

    def _marked(self, connection: Connection, done: T) -> T:
        """What was done; where it is anything, what was there before is to be purged."""
        if done:
            self._database.mark(connection)
        return done

    async def purge(self) -> None:
        await self._purged(self._database.purge)

    async def rewrite(self) -> None:
        await self._purged(self._database.rewrite)

    async def _purged(self, purge: Callable[[Run, float], None]) -> None:
        # A server's may take minutes, beside which sessions are written; in a file it keeps them all waiting.
        queue = self._readers if len(self._writers) > 1 else self._writers[0]
        timeout_s = max(self._timeout_s, _PURGE_S)
        await outcome(queue.submit(lambda link: purge(link.run, timeout_s)))

    async def check(self) -> None:
        await self._write(lambda connection: connection.execute(_TOUCH).rowcount)

    async def close(self) -> None:
        for lane in (self._lookups, self._readers, *self._writers):
            for end in lane.stop():
                await ended(end, _LAST_WORDS_S, [link.interrupt for link in self._links])

    async def _write(self, work: Work[T], key: Hashable = None) -> T:
        """Write; what has the same key is written in the order of the calls."""
        writer = (
            self._writers[hash(key) % len(self._writers)] if key is not None else self._writers[0]
        )
        admitted = work if self._is_admitted else self._admitted(work)
        job, database = self._job(self._database.WRITE, admitted), self._database

        def write(link: Link) -> T:
            try:
                return job(link)
            except _SPOILT as error:  # of what was stored, on which the write rests
                raise database.damaged(error) from error

        return await outcome(writer.submit(write))

    def _admitted(self, work: Work[T]) -> Work[T]:
        """The work, once it is seen that this process has the key of a file that is sealed."""
        is_sealing = self.encryption is not None

        def first(connection: Connection) -> T:
            secret = self._get_secret
            mark = settings.get(connection, SEALED_BY, MARK, secret)
            if must_be_marked(mark, is_sealing=is_sealing):
                settings.put(connection, SEALED_BY, MARK, True, None, secret)
            return work(connection)

        return first

    async def _read(self, work: Work[T], if_no_file: T, *, begin: str | None = None) -> T:
        """Read in one transaction; one statement of one row needs none (`begin=""`)."""
        begin = self._database.READ if begin is None else begin
        job, database = self._job(begin, work), self._database

        def read(link: Link) -> T:
            try:
                return job(link) if database.exists() else if_no_file
            except _SPOILT as error:  # of what was stored
                raise database.damaged(error) from error

        return await outcome((self._readers if begin else self._lookups).submit(read))

    def _job(self, begin: str, work: Work[T]) -> Callable[[Link], T]:
        timeout_s = self._timeout_s
        deadline = monotonic() + timeout_s
        return lambda link: link.run(begin, work, deadline, timeout_s)

    def before_fork(self) -> None:
        # A child must find no open connection: SQLite keeps locks and shared memory per process.
        self._resting = [link for link in self._links if link.rest(_LAST_WORDS_S)]

    def after_fork(self, *, child: bool) -> None:
        for link in self._resting:
            link.resume()
        if child:
            _never_closed.extend(link for link in self._links if link not in self._resting)
            self._database = self._database.anew()
            self._links = self._new_links()
            self._lookups.reset(self._links[:1])
            self._readers.reset(self._links[1 : 1 + _READERS])
            for writer, link in zip(self._writers, self._links[1 + _READERS :], strict=True):
                writer.reset([link])
