"""What one kind of database does in a way of its own; all else of the SQL store is the same for each."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from sqlalchemy import Connection

from ce_engine.errors import StoreUnavailableError


Run = Callable[[str, Callable[[Connection], bool], float, float], bool]
"""`Link.run`, for a purge."""


class Database(Protocol):
    """Where a store's tables are, and how one talks to it. Connections begin no transaction themselves."""

    WRITE: str
    """The statement that begins a transaction that writes."""
    READ: str
    """The statement that begins one that only reads, all of it as of one moment."""
    WRITERS: int
    """How many connections may write at once; all writes of a session go through the same one."""
    SHARES: bool
    """Connections of a process share what they know of the database: a fault of one is one of all."""
    DRIVER_ERROR: type[Exception]

    def connect(self) -> Connection:
        """A connection to a database whose schema is current; the tables are made where there are none."""
        ...

    def limit(self, connection: Connection, *, is_long: bool = False) -> None:
        """See that the next transaction ends, whatever somebody put into the database; one that `is_long` need not."""
        ...

    def interrupt(self, connection: Connection) -> None:
        """End what another thread does on it just now."""
        ...

    def anew(self) -> Database:
        """The same database, for a forked child: nothing of the parent's connections."""
        ...

    def identity(self) -> Hashable:
        """Which database is at the place now."""
        ...

    def exists(self) -> bool:
        """Whether there is something to read."""
        ...

    def check_place(self) -> None:
        """See that the URL may name a store, without waiting."""
        ...

    def secret(self) -> bytes:
        """The secret for fingerprints, which is outside the database."""
        ...

    def lock_settings(self, connection: Connection) -> None:
        """Keep others from writing settings until the transaction ends."""
        ...

    def mark(self, connection: Connection) -> None:
        """Note, in the transaction that deletes, that there are bytes to purge."""
        ...

    def purge(self, run: Run, timeout_s: float) -> None:
        """Take what was deleted out of the database's files, as far as it can be done from here.

        Raises:
            DeletedBytesError: some of it stays, until an operator does something.
        """
        ...

    def rewrite(self, run: Run, timeout_s: float) -> None:
        """The same with whatever it takes: nobody reads or writes beside it."""
        ...

    def is_busy(self, error: BaseException) -> bool:
        """Somebody else holds the lock just now."""
        ...

    def is_repeated(self, error: BaseException) -> bool:
        """A row with this key is there already."""
        ...

    def may_be_of_before(self, error: BaseException) -> bool:
        """The fault may lie in the connection alone, and nothing was written: a new one may have none."""
        ...

    def explain(self, error: BaseException) -> BaseException:
        """The error that the caller gets; ours, and what is no database error, stays what it is."""
        ...

    def locked(self, waited_s: float) -> StoreUnavailableError:
        """Say that a lock was not to be had."""
        ...

    def damaged(self, error: object) -> Any:
        """Say that a record is none."""
        ...
