"""PostgreSQL: what was deleted leaves the tables' files as far as the server lets us; what stays is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Any

from psycopg import errors
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ce_engine.errors import DeletedBytesError
from ce_engine.stores.tables import tables


OLDER_S = 5.0
"""How long older transactions are waited for: each may still see what was deleted, and keeps it."""
_PAUSE_S = 0.05
_PATIENT = (
    "SET lock_timeout = 5000",
    "SET client_min_messages = warning",  # or it would not be heard what was passed over
)
_TO_REWRITE = "SET statement_timeout = 300000"
"""For a table; a vacuum beside an app has the time of any statement: what is done of it stays done."""

_NEXT = "SELECT txid_snapshot_xmax(txid_current_snapshot())"
_XIDS = 2**32
"""After so many the server counts from the beginning."""

# Another role's row tells no more than ids. Who vacuums keeps nothing; a standby's feedback has no database. A snapshot, that
# of VACUUM FULL too, begins with the oldest write of the whole server: who writes counts in any database, who reads in ours.
_OLDER = """
SELECT 'process ' || pid::text FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
  AND (age(backend_xid) > age('{next}'::xid)
    OR age(backend_xmin) > age('{next}'::xid) AND (datname = current_database() OR datname IS NULL))
UNION ALL SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts
WHERE age(transaction) > age('{next}'::xid)
UNION ALL SELECT 'replication slot ' || slot_name::text FROM pg_replication_slots
WHERE age(xmin) > age('{next}'::xid)
"""
_FILES = """
SELECT relname, ARRAY(SELECT pg_relation_filenode(relid) FROM pg_partition_tree(c.oid::regclass) WHERE isleaf
  UNION SELECT pg_relation_filenode(c.oid::regclass) WHERE relkind = 'r')
FROM pg_class c WHERE relkind IN ('r', 'p') AND pg_table_is_visible(oid)
"""
"""A table that an operator partitioned has its rows in the files of its partitions."""
_CONTENT = {
    table.name: [column.name for column in table.columns if isinstance(column.type, tables.Sealed)]
    for table in tables.metadata.tables.values()
}
"""Columns of content, by their tables: the planner needs to know nothing of them."""
UNSAMPLED = tuple(
    f"ALTER TABLE {table} " + ", ".join(f"ALTER COLUMN {name} SET STATISTICS 0" for name in columns)
    for table, columns in _CONTENT.items()
    if columns
)
"""Else ANALYZE copies values of some rows into `pg_statistic`, where a deletion does not reach them."""
_SAMPLES = """
SELECT s.tablename, s.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_stats s JOIN pg_namespace n ON n.nspname = s.schemaname
JOIN pg_class c ON c.relname = s.tablename AND c.relnamespace = n.oid
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = s.attname
WHERE pg_table_is_visible(c.oid)
"""
_BRIEFLY = "SET lock_timeout = 200"
"""For a lock that an app's calls queue behind, beside them."""
_HELD = "others held a table: see what they do, or use --rewrite"
_REFUSALS = {
    errors.InsufficientPrivilege: "only the tables' owner can take them away",
    errors.FeatureNotSupported: "a view, a trigger, a policy or a generated column that is none of ours uses a column "
    "of content: take that away",
}
_WAITED = (errors.LockNotAvailable, errors.DeadlockDetected, errors.QueryCanceled)
_NAMED = 5


class Vacuum:
    """Empties the tables' files on one connection, which begins no transaction by itself."""

    def __init__(self, connection: Connection, place: str, usual: Sequence[str]) -> None:
        self._connection, self._place, self._usual = connection, place, usual

    def free(self) -> None:
        """Let dead rows go, and their places be written over.

        Raises:
            DeletedBytesError: some stay.
        """
        with self._patient() as passed_over:
            older = self._older()
            # To freeze, the server waits for a page that somebody looks at, and does not pass over it.
            busy = self._is_busy_for(f"VACUUM (FREEZE) {', '.join(_names())}")
            skipped = len(passed_over)
            self._connection.exec_driver_sql(_BRIEFLY)
            samples = self._forget_samples()
        in_use = (
            "others held a table for 5 s, or it took too long: see what they do" if busy else ""
        )
        self._say([older, _not_owned(skipped), in_use, samples])

    def rewrite(self) -> None:
        """Write all tables anew, each under a lock that nobody else reads or writes beside.

        Raises:
            DeletedBytesError: some stay.
        """
        with self._patient():
            self._connection.exec_driver_sql(_TO_REWRITE)
            if older := self._older():
                self._say([older])  # whose rows would be copied into the new files
            before = self._files()
            busy = [name for name in _names() if self._is_busy_for(f"VACUUM (FULL, FREEZE) {name}")]
            after = self._files()
            samples = self._forget_samples()
        same = [name for name in _names() if before[name] & after[name] and name not in busy]
        in_use = f"others hold {', '.join(busy)}, or it takes 5 minutes: stop them" if busy else ""
        self._say([in_use, _not_owned(len(same)), samples])

    def _say(self, why: Sequence[str]) -> None:
        if reasons := "; ".join(filter(None, why)):
            raise DeletedBytesError(
                f"old rows stay in the files of {self._place}: {reasons}. Then run: ce delete --rewrite"
            )

    @contextmanager
    def _patient(self) -> Iterator[list[object]]:
        """Wait longer than an app's calls do; what the server warns of is in the list."""
        heard: list[object] = []

        def hear(notice: Any) -> None:
            if notice.severity_nonlocalized == "WARNING":
                heard.append(notice)

        driver: Any = self._connection.connection.driver_connection
        for setting in _PATIENT:
            self._connection.exec_driver_sql(setting)
        driver.add_notice_handler(hear)
        try:
            yield heard
        finally:
            driver.remove_notice_handler(hear)
            with suppress(SQLAlchemyError):  # it is lost, and the next one begins as usual
                for setting in (*self._usual, "RESET client_min_messages"):
                    self._connection.exec_driver_sql(setting)

    def _older(self) -> str:
        """Wait until nobody sees what is deleted by now; who still does then."""
        deadline = monotonic() + OLDER_S
        following = int(self._connection.exec_driver_sql(_NEXT).scalar_one()) % _XIDS
        query = _OLDER.format(next=following)
        while names := self._connection.exec_driver_sql(query).scalars().all():
            if monotonic() > deadline:
                break
            sleep(_PAUSE_S)
        if not names:
            return ""
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"older transactions keep what they may still see ({', '.join(names[:_NAMED])}{more}): end them"

    def _forget_samples(self) -> str:
        """Let the server forget values of content that ANALYZE copied, and copy none again; what stays, in words.

        A column that has its own type set anew loses them; the next ANALYZE would keep them where no row is left.
        """
        columns = [row for row in self._connection.exec_driver_sql(_SAMPLES) if _is_content(*row)]
        if not columns:
            return ""
        problems = dict[str, None]()
        anew = (f"ALTER TABLE {t} ALTER COLUMN {c} TYPE {type_}" for t, c, type_ in columns)
        for statement in (*UNSAMPLED, *anew):
            problem = self._problem_of(statement)
            problems[problem] = None
            if problem == _HELD:  # an app's calls wait behind each that waits
                break
        self._is_busy_for(
            "VACUUM pg_catalog.pg_statistic"
        )  # a superuser's; it warns others, and passes over
        texts = "; ".join(filter(None, problems))
        return f"statistics (pg_stats) have values of deleted rows: {texts}" if texts else ""

    def _problem_of(self, statement: str) -> str:
        """Run it; what was in its way."""
        try:
            return _HELD if self._is_busy_for(statement) else ""
        except DBAPIError as error:
            for kind, problem in _REFUSALS.items():
                if isinstance(error.orig, kind):
                    return problem
            raise

    def _is_busy_for(self, statement: str) -> bool:
        """Run it; true where others were in its way for too long."""
        try:
            self._connection.exec_driver_sql(statement)
        except DBAPIError as error:
            if isinstance(error.orig, _WAITED):
                return True
            raise
        return False

    def _files(self) -> Mapping[str, set[int]]:
        """The numbers of the files that each table has now."""
        return {row[0]: set(row[1]) for row in self._connection.exec_driver_sql(_FILES)}


def _is_content(table: str, column: str, _: str) -> bool:
    return column in _CONTENT.get(table, ())


def _names() -> list[str]:
    return list(tables.metadata.tables)


def _not_owned(count: int) -> str:
    if not count:
        return ""
    return (
        f"the server passed over {count} of {len(_names())} tables, which this role does not own: use their owner's, "
        "or from PostgreSQL 17 on GRANT MAINTAIN"
    )
