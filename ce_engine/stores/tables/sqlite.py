"""One SQLite file: its connections, and its schema made or brought up to date when it is opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from sqlalchemy import Connection, create_engine, insert, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from ce_engine.errors import MigrationError, StoreError, StoreUnavailableError, StoreUrlError
from ce_engine.stores import path_checks, private_files, secret
from ce_engine.stores.tables import faults, tables
from ce_engine.stores.tables.dialect import Run
from ce_engine.stores.tables.migrations import HEAD, KNOWN


_PAUSE_S = 0.02
_TICK = 1_000_000
"""So many of SQLite's steps take some hundredths of a second."""
MOST_TICKS = 1_000
"""Steps of one transaction, by `_TICK`: of millions of rows. A view or trigger that never ends takes half a minute."""
_PRAGMAS = ("PRAGMA foreign_keys = ON", "PRAGMA synchronous = NORMAL")

_VIEWS = "SELECT name FROM sqlite_master WHERE lower(type) = 'view'"
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"

BESIDE = ("-wal", "-shm", "-journal")
"""The ends of the names of the files that SQLite makes beside the database."""

Identity = tuple[int, int]
"""Device and number of a file: another file at the same path has another one."""


class SqliteDatabase:
    """Opens connections to one file; they begin no transaction by themselves and wait for no lock."""

    WRITE, READ = "BEGIN IMMEDIATE", "BEGIN"
    WRITERS = 1
    SHARES = True
    DRIVER_ERROR: type[Exception] = sqlite3.Error

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine = create_engine(
            URL.create("sqlite+pysqlite", database=str(path)),
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"isolation_level": None, "check_same_thread": False, "timeout": 0},
        )

    def connect(self) -> Connection:
        """A connection to a file whose schema is current; a file that is not there is made.

        Raises:
            StoreUnavailableError: the file holds tables of another program.
            MigrationError: the file is of a newer release.
        """
        self._make_private()
        connection = self._engine.connect()
        try:
            for pragma in _PRAGMAS:
                connection.exec_driver_sql(pragma)
            self._check_views(connection)
            self._make_current(connection)
            connection.rollback()
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_private(self) -> None:
        """See that SQLite opens a file of this user's, whose mode its other files get from it."""
        name = self.path.name
        try:
            for path in (self.path, *(self.path.with_name(name + end) for end in BESIDE)):
                if private_files.is_link(path):
                    raise faults.is_link(self.path, path)
                if path != self.path and private_files.is_irregular(path):
                    raise faults.is_no_file(path)  # SQLite would wait for who writes to a pipe
            private_files.make_file(self.path)
        except OSError:
            raise faults.cannot_open(self.path) from None

    def identity(self) -> Identity | None:
        """Which file is at the path now; `None` if there is none that can be seen."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def exists(self) -> bool:
        """Whether there is a file to read; false if there is none yet, but could be.

        Raises:
            StoreUnavailableError: there is none and there cannot be.
        """
        try:
            self.path.stat()
        except FileNotFoundError:
            if self.path.parent.is_dir():
                return False
            raise faults.cannot_open(self.path) from None
        except OSError:
            raise faults.cannot_open(self.path) from None
        return True

    def limit(self, connection: Connection, *, is_long: bool = False) -> None:
        ticks = count(1)
        driver = _driver(connection)
        is_over = None if is_long else lambda: next(ticks) > MOST_TICKS
        driver.set_progress_handler(is_over, _TICK)

    def interrupt(self, connection: Connection) -> None:
        _driver(connection).interrupt()

    def anew(self) -> SqliteDatabase:
        return SqliteDatabase(self.path)

    def secret(self) -> bytes:
        return secret.of_local(self.path)

    def check_place(self) -> None:
        path_checks.check_file(self.path)
        self.check_kind()

    def lock_settings(self, connection: Connection) -> None:
        """Whoever writes here is the only one."""

    def mark(self, connection: Connection) -> None:
        # What was deleted still stands in free parts of the file and in the write-ahead log. That it
        # does is marked in the transaction that deletes, so that a purge which was not made, or not to
        # its end, is made by the next.
        connection.exec_driver_sql("PRAGMA user_version = 1")

    def purge(self, run: Run, timeout_s: float) -> None:
        """Write the file anew without what is free in it, and empty the write-ahead log."""
        deadline = monotonic() + timeout_s
        if not self.exists() or not run("BEGIN", _is_marked, deadline, timeout_s):
            return
        if not run("VACUUM", partial(_empty_log, deadline=deadline), deadline, timeout_s):
            raise faults.locked(self.path, timeout_s)

    def rewrite(self, run: Run, timeout_s: float) -> None:
        self.purge(run, timeout_s)  # which is one

    def is_busy(self, error: BaseException) -> bool:
        return faults.is_busy(error)

    def is_repeated(self, error: BaseException) -> bool:
        return faults.is_repeated(error)

    def may_be_of_before(self, error: BaseException) -> bool:
        return faults.may_be_of_before(error)

    def explain(self, error: BaseException) -> BaseException:
        return faults.explain(error, self.path)

    def locked(self, waited_s: float) -> StoreUnavailableError:
        return faults.locked(self.path, waited_s)

    def damaged(self, error: object) -> StoreError:
        return faults.damaged(self.path, error)

    def check_kind(self) -> None:
        """See that a file that is there can be a store: no locks, no waiting, nothing made beside it.

        SQLite itself looks: who opens and closes its file otherwise drops the locks that the process has.

        Raises:
            StoreUrlError: it is no database, or one of another program.
        """
        name = self.path.name
        if not self.path.is_file() or any(
            self.path.with_name(name + end).exists() for end in BESIDE
        ):
            return  # a journal may mend what stands in the file, and says that somebody uses it
        try:
            uri = f"{self.path.absolute().as_uri()}?mode=ro&immutable=1"
            with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
                names = [name for (name,) in connection.execute(_TABLES)]
        except sqlite3.Error as error:
            if faults.is_no_database(error):
                raise StoreUrlError(f"{faults.explain(error, self.path)}. See: ce doctor") from None
            return
        if tables.revisions.name not in names and (problem := self._of_another(names)):
            raise StoreUrlError(f"{problem} See: ce doctor")

    def _make_current(self, connection: Connection) -> None:
        revision = _revision(connection)
        if revision == HEAD:
            return
        if revision is not None and revision not in KNOWN:
            raise MigrationError(
                f"the store's file {str(self.path)!r} has schema {revision!r}; this release knows "
                f"{', '.join(KNOWN)}. It was left as it is: use the release of ce-integrations "
                "that wrote it, or a newer one."
            )
        if revision is None:
            self._check_empty(connection)
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        upgrade = _upgrader() if revision else None  # before the lock: it is slow to import
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        now = _revision(connection)  # another process may have been first
        if now is None:
            tables.metadata.create_all(connection, checkfirst=False)
            connection.execute(insert(tables.revisions), {"version_num": HEAD})
        elif now != HEAD:
            (upgrade or _upgrader())(connection)
        connection.commit()

    def _check_views(self, connection: Connection) -> None:
        """See that what is read are tables: a view may be without end, and say what it likes."""
        names = connection.exec_driver_sql(_VIEWS).scalars()
        if view := next((name for name in names if name.lower() in tables.metadata.tables), ""):
            raise StoreUnavailableError(
                f"in the store's file {str(self.path)!r} {view} is a view, where this library has a table: somebody "
                "changed the file. It was left as it is. Restore a backup: ce restore"
            )

    def _check_empty(self, connection: Connection) -> None:
        if problem := self._of_another(connection.exec_driver_sql(_TABLES).scalars()):
            raise StoreUnavailableError(problem)

    def _of_another(self, names: Iterable[str]) -> str:
        """Say that a file with these tables is another program's; nothing if it is not."""
        foreign = [name for name in names if name not in tables.metadata.tables]
        if not foreign:
            return ""
        return (
            f"the SQLite file {str(self.path)!r} holds tables of another program "
            f"({', '.join(foreign[:3])}). It was left as it is: name a file of its own."
        )


def _driver(connection: Connection) -> sqlite3.Connection:
    driver: Any = connection.connection.dbapi_connection
    sqlite_connection: sqlite3.Connection = driver
    return sqlite_connection


def _is_marked(connection: Connection) -> bool:
    """Whether something was deleted since the last purge."""
    return bool(connection.exec_driver_sql("PRAGMA user_version").scalar())


def _empty_log(connection: Connection, deadline: float) -> bool:
    """Move the write-ahead log into the file, and cut it off; false if somebody reads it all the time."""
    while connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]:
        if monotonic() > deadline:
            return False
        sleep(_PAUSE_S)
    connection.exec_driver_sql("PRAGMA user_version = 0")
    return True


def _upgrader() -> Callable[[Connection], None]:
    from ce_engine.stores.tables.migrations.upgrade import upgrade  # noqa: PLC0415 - imports Alembic

    return upgrade


def _revision(connection: Connection) -> str | None:
    """The schema's revision; `None` where there is no schema of ours."""
    try:
        revision: str | None = connection.execute(select(tables.revisions)).scalar()
    except OperationalError as error:
        if "no such table" in str(error.orig):
            return None
        raise
    return revision
