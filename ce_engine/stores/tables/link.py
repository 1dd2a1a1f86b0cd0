"""One connection to the database, used by one thread, that others may close."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from time import monotonic, sleep
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, InvalidRequestError

from ce_engine.errors import ScopeViolationError, SessionNotFoundError, VersionConflictError
from ce_engine.stores.tables import compiled_statements
from ce_engine.stores.tables.dialect import Database


T = TypeVar("T")
Work = Callable[[Connection], T]

_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.01

_LONG = "VACUUM"
"""Takes as long as the file is large."""
_BETWEEN_QUERIES = DBAPIError, VersionConflictError, SessionNotFoundError, ScopeViolationError
"""The database's own errors and our answers: no query is open by then. All others may be of a row's content,
a key that is not here as well."""


class Link:
    """Runs transactions on a connection that is opened when it is needed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._identity: Hashable = None
        self.peers: Iterable[Link] = (self,)
        """All links to the same file in this process."""

    def run(self, begin: str, work: Work[T], deadline: float, timeout_s: float) -> T:
        """Run `work` in one transaction; while the file is locked, again until the deadline.

        Raises:
            StoreUnavailableError: the file is locked, full, read-only, damaged or not there.
            IntegrityError: a row of this key is there already; nothing was written.
        """
        pause = _FIRST_PAUSE_S
        from_file = False
        while True:
            if self.is_moved():
                # SQLite shares memory between the connections of a process: none may stay with the
                # old file while another opens the new one.
                for peer in self.peers:
                    peer.close_if_moved()
            try:
                with self._lock:
                    return self._transact(begin, work)
            except DBAPIError as error:
                if self._database.is_repeated(error):
                    raise
                if self._database.is_busy(error):
                    if monotonic() + pause > deadline:
                        raise self._database.locked(timeout_s) from error
                    sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_S)
                    continue
                # Connections of a process share what they know of the file, and it may be of
                # before: start from the file again, all of them.
                for peer in self.peers:
                    peer.close()
                if from_file or not self._database.may_be_of_before(error):
                    raise self._database.explain(error) from error
                from_file = True

    def _transact(self, begin: str, work: Work[T]) -> T:
        connection = self._connection or self._open()
        try:
            self._database.limit(connection, is_long=begin == _LONG)
            if begin:
                compiled_statements.begin(connection, begin)
            result = work(connection)
            compiled_statements.commit(connection)
        except BaseException as error:
            try:
                connection.rollback()
                # SQLAlchemy 2.1 sends none after a commit that failed: a reader had the file. What was begun
                # would stay open, and the next transaction could not begin.
                connection.connection.rollback()
            except (DBAPIError, self._database.DRIVER_ERROR):
                self._close()
            if not isinstance(error, _BETWEEN_QUERIES):
                # A row that cannot be read ended a query half-way: while its cursor lives, and be it in a
                # frame of the error's, this connection goes on reading the file as it was then, closed or not.
                traceback.clear_frames(error.__traceback__)
                self._close()
            raise
        return result

    def _open(self) -> Connection:
        self._connection = self._database.connect()
        self._identity = self._database.identity()
        return self._connection

    def is_moved(self) -> bool:
        """The file that the connection is open on is no longer the one at the path."""
        return self._connection is not None and self._database.identity() != self._identity

    def close_if_moved(self) -> None:
        with self._lock:
            if self.is_moved():
                self._close()

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()

    def interrupt(self) -> None:
        """End what the connection does just now: nobody waits for it."""
        connection = self._connection
        if connection is not None:
            # It may be closed meanwhile, on its own thread.
            with suppress(DBAPIError, InvalidRequestError, self._database.DRIVER_ERROR):
                self._database.interrupt(connection)

    def rest(self, timeout_s: float) -> bool:
        """Close the connection and let no other be opened until `resume`; false if it is in use."""
        if not self._lock.acquire(timeout=timeout_s):
            return False
        self._close()
        return True

    def resume(self) -> None:
        self._lock.release()
