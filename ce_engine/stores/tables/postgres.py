"""PostgreSQL: its connections, its schema and its locks; several hosts may share one, and start at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import errors, pq
from sqlalchemy import Connection, String, create_engine, insert, select
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg
from sqlalchemy.dialects.sqlite.dml import OnConflictDoNothing, OnConflictDoUpdate
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import NullPool

from ce_engine.errors import (
    ContextEngineError,
    FileDamagedError,
    MigrationError,
    StoreError,
    StoreUnavailableError,
)
from ce_engine.stores import secret
from ce_engine.stores.postgres_url import place_of, psycopg_url
from ce_engine.stores.tables import tables
from ce_engine.stores.tables.dialect import Run
from ce_engine.stores.tables.migrations import HEAD, KNOWN
from ce_engine.stores.tables.vacuuming import UNSAMPLED, Vacuum


_SCHEMAS = (
    "SELECT schemaname, schemaname = current_schema() FROM pg_catalog.pg_tables "
    "WHERE tablename = 'ce_revision' AND schemaname = ANY (current_schemas(false))"
)
_LOCK_SCHEMA = "SELECT pg_advisory_xact_lock(hashtextextended('ce_revision ' || current_schema()::text, 0::bigint))"
_COMMENT = (
    "SELECT obj_description(c.oid, 'pg_class'::name), quote_ident(n.nspname::text) FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relname = 'ce_revision' AND n.nspname = current_schema()"
)
_HAS_TABLE = "SELECT 1 FROM pg_catalog.pg_class c WHERE c.relname = %s::name AND pg_catalog.pg_table_is_visible(c.oid)"
_MADE_WITH = "ce-integrations: made with the secret of mark "
"""Begins the comment on a store's table that tells with which `CE_SECRET` it was made."""
_CONNECT_S = "2"
"""Libpq counts in whole seconds, and takes 2 for less. A URL may name another time."""
_LOST_MS = "5000"
"""How long what was sent may stay without an answer of the host's network."""
_LONGEST_S = 30.0
"""How long one statement may run: a call of the engine's has long gone on without it."""

_OPEN_TURNS = (
    "DROP INDEX ce_open_turns",
    f"CREATE INDEX ce_open_turns ON ce_turns (session) WHERE {tables.OPEN_TURN}",
)
_BUSY = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)
_GONE = (
    *(errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow),
    *(errors.IdleSessionTimeout, errors.IdleInTransactionSessionTimeout),
)
_NOT_PREPARED = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""A pooler gave the connection another server than the one that has its prepared statements."""
_OF_RECORD = ("22", "54")
"""Classes of SQLSTATE that tell of the values of one record: out of range, or more than the server takes."""
_AWAY = ("26", "3F", "42P01", "42P05")
"""SQLSTATEs that pass: a table or schema is being exchanged, a pooler lost a statement."""
_REFUSED = (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction)


class _Exact(PGCompiler_psycopg):
    """Texts are sent as what the columns are.

    SQLAlchemy (2.0) sends `VARCHAR`: anybody's operator `=(text, varchar)`, in any schema of the search path, would fit better than
    the server's own, and decide whose rows a call gets.
    """

    def render_bind_cast(self, type_: Any, dbapi_type: Any, sqltext: str) -> str:
        if isinstance(dbapi_type, String):
            return f"{sqltext}::TEXT"
        cast: str = super().render_bind_cast(type_, dbapi_type, sqltext)  # type: ignore[no-untyped-call]
        return cast


def _has_table(
    connection: Connection, table_name: str, schema: str | None = None, **_: Any
) -> bool:
    """Whether a table is there: SQLAlchemy's own question, which Alembic (1.20) asks, compares one byte with texts."""
    del schema  # it is that of the search path
    return connection.exec_driver_sql(_HAS_TABLE, (table_name,)).first() is not None


class PostgresDatabase:
    """Opens connections to one database; they begin no transaction by themselves."""

    WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
    READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    WRITERS = 4
    SHARES = False
    DRIVER_ERROR: type[Exception] = psycopg.Error

    def __init__(self, url: str, lock_timeout_s: float) -> None:
        self.place = place_of(url)
        self._given, self._lock_timeout_s = url, lock_timeout_s
        self._is_pooled = False
        parsed_url = psycopg_url(url)
        defaults = {
            name: value
            for name, value in (("connect_timeout", _CONNECT_S), ("tcp_user_timeout", _LOST_MS))
            if name not in parsed_url.query
        }
        self._engine = create_engine(
            parsed_url,
            poolclass=NullPool,  # a link keeps its connection: there are never more than links
            hide_parameters=True,
            use_native_hstore=False,
            connect_args={"autocommit": True, "application_name": "ce-integrations", **defaults},
        )
        self._engine.dialect.statement_compiler = _Exact
        self._engine.dialect.has_table = _has_table  # type: ignore[method-assign]
        self._times = (
            f"SET lock_timeout = {max(1, int(lock_timeout_s * 1000))}",
            f"SET statement_timeout = {int(max(_LONGEST_S, 2 * lock_timeout_s) * 1000)}",
        )

    def connect(self) -> Connection:
        """A connection to a database whose schema is current; the tables are made where there are none.

        Raises:
            MigrationError: the tables are of a newer release.
            StoreUnavailableError: they were made with another `CE_SECRET`, or stand where they may be another's.
        """
        connection = self._engine.connect()
        try:
            self._prepare_if_alone(connection)
            for time in self._times:
                connection.exec_driver_sql(time)
            self._make_current(connection)
            connection.rollback()
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare_if_alone(self, connection: Connection) -> None:
        """Behind a pooler, connections take turns at a server, and would meet each other's prepared statements."""
        driver: Any = connection.connection.driver_connection
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        if self._is_pooled or pid != driver.info.backend_pid:  # a pooler has numbers of its own
            driver.prepare_threshold = None

    def _make_current(self, connection: Connection) -> None:
        if self._is_current(connection):
            return
        connection.rollback()
        connection.exec_driver_sql(self.WRITE)
        # Of several hosts that start at once with a schema one does it, and the others wait for it.
        connection.exec_driver_sql(_LOCK_SCHEMA)
        if not self._is_current(connection):
            if _revision(connection) is None:
                tables.metadata.create_all(connection, checkfirst=False)
                for statement in (*_OPEN_TURNS, *UNSAMPLED):
                    connection.exec_driver_sql(statement)
                connection.execute(insert(tables.revisions), {"version_num": HEAD})
                connection.exec_driver_sql(_comment_on("ce_revision", secret.mark()))
            else:
                from ce_engine.stores.tables.migrations.upgrade import upgrade  # noqa: PLC0415

                upgrade(connection)
        connection.commit()

    def _is_current(self, connection: Connection) -> bool:
        revision = _revision(connection)
        if revision is not None and revision not in KNOWN:
            raise MigrationError(
                f"the store in {self.place} has schema {revision!r}; this release knows "
                f"{', '.join(KNOWN)}. It was left as it is: use the release of ce-integrations "
                "that wrote it, or a newer one."
            )
        if revision is not None:
            self._check_secret(connection)
        return revision == HEAD

    def _check_secret(self, connection: Connection) -> None:
        """What this host wrote with another one, all others would take for forged."""
        row, own = connection.exec_driver_sql(_COMMENT).first(), secret.mark()
        comment, schema = (row[0] or "", row[1]) if row is not None else ("", "")
        if own and comment.startswith(_MADE_WITH) and comment != _MADE_WITH + own:
            raise StoreUnavailableError(
                f"the store in {self.place} was made with another {secret.VARIABLE} than this process has. Set it to "
                "the same text on all hosts. If the old one is lost, what was recorded with it cannot be verified any "
                f"more; to go on with this one, run: {_comment_on(f'{schema}.ce_revision', own)}"
            )

    def limit(self, connection: Connection, *, is_long: bool = False) -> None:
        """The server ends each statement itself."""

    def interrupt(self, connection: Connection) -> None:
        """The same."""

    def anew(self) -> PostgresDatabase:
        return PostgresDatabase(self._given, self._lock_timeout_s)

    def identity(self) -> None:
        """A connection stays with the server that it was opened to."""

    def exists(self) -> bool:
        return True

    def check_place(self) -> None:
        self.secret()

    def secret(self) -> bytes:
        if (value := secret.from_environment()) is not None:
            return value
        raise StoreUnavailableError(
            f"the store in {self.place} needs {secret.VARIABLE}: several hosts share it, and with it "
            "their secret for fingerprints, which never stands in the database. Set it to the same "
            "long random text on each of them."
        )

    def lock_settings(self, connection: Connection) -> None:
        connection.exec_driver_sql("LOCK TABLE ce_settings IN SHARE ROW EXCLUSIVE MODE")

    def mark(self, connection: Connection) -> None:
        """The server itself knows which rows are dead."""

    def purge(self, run: Run, timeout_s: float) -> None:
        """Let dead rows go, and say where the server keeps them; its log and backups are its own."""
        self._vacuumed(run, Vacuum.free, timeout_s)

    def rewrite(self, run: Run, timeout_s: float) -> None:
        self._vacuumed(run, Vacuum.rewrite, timeout_s)

    def _vacuumed(self, run: Run, how: Callable[[Vacuum], None], timeout_s: float) -> None:
        def work(connection: Connection) -> bool:
            how(Vacuum(connection, self.place, self._times))
            return True

        run("", work, 0.0, timeout_s)  # VACUUM stands in no transaction

    def is_busy(self, error: BaseException) -> bool:
        return isinstance(_orig(error), _BUSY)

    def is_repeated(self, error: BaseException) -> bool:
        return isinstance(_orig(error), errors.UniqueViolation)

    def may_be_of_before(self, error: BaseException) -> bool:
        if isinstance(_orig(error), _NOT_PREPARED):
            self._is_pooled = True
            return True
        # What was lost while it was committed may be there: only who asked can tell.
        is_commit = isinstance(error, DBAPIError) and error.statement is None
        return _is_lost(_orig(error)) and not is_commit

    def explain(self, error: BaseException) -> BaseException:  # noqa: PLR0911 - one a kind of fault
        if isinstance(error, ContextEngineError) or not isinstance(error, DBAPIError):
            return error
        orig = _orig(error)
        name = type(orig).__name__
        if _is_lost(orig):
            return StoreUnavailableError(
                f"the store in {self.place} cannot be reached ({name}). See that the server runs and "
                "has connections left for this user, and that host, port, user, password, database and "
                "sslmode of the URL are right."
            )
        if isinstance(orig, errors.QueryCanceled):
            return StoreUnavailableError(
                f"the store in {self.place} took too long ({name}); see what the server is busy with"
            )
        if isinstance(orig, _REFUSED):
            return StoreUnavailableError(
                f"the store in {self.place} may not be written ({name}). Give its user the right to "
                "create tables in the schema, or to read and write those that are there."
            )
        if _state(orig).startswith(_OF_RECORD):
            return FileDamagedError(
                f"the store in {self.place} cannot take a record ({name}): an id in it is too long for an index of "
                "the server's, or a value out of its range. Give it a shorter one: for this session the store is "
                "away, for all others it is not."
            )
        if isinstance(orig, psycopg.OperationalError) or _state(orig).startswith(_AWAY):
            return StoreUnavailableError(f"the store in {self.place} cannot be used ({name})")
        return StoreError(
            f"the store refused a statement ({name}); this is a fault of ce-integrations"
        )

    def locked(self, waited_s: float) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"the store in {self.place} holds a row locked for another connection (waited {waited_s:g} s). "
            "End its long transaction."
        )

    def damaged(self, error: object) -> FileDamagedError:
        return FileDamagedError(
            f"the store in {self.place} holds a damaged record ({type(error).__name__}). It was left as "
            "it is. Restore a backup, or delete the session that it belongs to: ce delete"
        )


@compiles(OnConflictDoUpdate, "postgresql")
def _do_update(clause: Any, compiler: Any, **options: Any) -> str:
    """The statements' `ON CONFLICT` is SQLite's; PostgreSQL's also knows constraints by name."""
    clause.constraint_target = None
    text: str = compiler.visit_on_conflict_do_update(clause, **options)
    return text


@compiles(OnConflictDoNothing, "postgresql")
def _do_nothing(clause: Any, compiler: Any, **options: Any) -> str:
    clause.constraint_target = None
    text: str = compiler.visit_on_conflict_do_nothing(clause, **options)
    return text


def _comment_on(table: str, mark: str) -> str:
    return f"COMMENT ON TABLE {table} IS '{_MADE_WITH}{mark}'"


def _orig(error: BaseException) -> Any:
    return error.orig if isinstance(error, DBAPIError) else error


def _state(orig: Any) -> str:
    return getattr(orig, "sqlstate", None) or ""


def _is_lost(orig: Any) -> bool:
    """The server has not said a word, or said that it is going or not yet there."""
    if isinstance(orig, _GONE):
        return True
    return isinstance(orig, psycopg.OperationalError | psycopg.InterfaceError) and (
        orig.sqlstate is None or orig.sqlstate.startswith("08") or _is_closed(orig)
    )


def _is_closed(orig: psycopg.Error) -> bool:
    return orig.pgconn is not None and orig.pgconn.status == pq.ConnStatus.BAD


def _revision(connection: Connection) -> str | None:
    """The schema's revision; `None` where there is no schema of ours.

    Raises:
        StoreUnavailableError: a store is in another schema of the search path, where it may be somebody else's.
    """
    # Not by `to_regclass`: who waited for a lock in its transaction is told what it has cached (15 to 18).
    schemas = {str(name): is_own for name, is_own in connection.exec_driver_sql(_SCHEMAS)}
    if not any(schemas.values()):
        if schemas:
            raise StoreUnavailableError(
                f"a store's tables are in the schema {', '.join(schemas)}, which is not the first of the search "
                "path: they may be somebody else's. Name one schema in the URL: ?options=-csearch_path=NAME"
            )
        return None
    revision: str | None = connection.execute(select(tables.revisions)).scalar()
    return revision
