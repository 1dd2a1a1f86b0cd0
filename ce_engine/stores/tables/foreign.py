"""What of an SQLite file is none of ours, and decides by itself what is written to it or read of it (B-01)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlalchemy import Connection, Table, UniqueConstraint
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.schema import CreateIndex

from ce_engine.stores.tables import tables


_NAMED = 3
"""What a sentence names."""
_MASTER = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
_INTEGRITY = f"PRAGMA integrity_check({_NAMED})"
_UNIQUE = (
    "SELECT l.name, i.name FROM pragma_index_list(?) l, pragma_index_info(l.name) i "
    "WHERE l.origin <> 'c' ORDER BY l.name, i.seqno"
)
"""Of the indexes that constraints make."""
_RULES = re.compile(r"\b(CHECK|COLLATE|GENERATED|ON\s+CONFLICT|AS\s*\()", re.IGNORECASE)
"""By these words a table refuses, merges or makes up what it has."""
_OURS = {
    str(index.name): " ".join(str(CreateIndex(index).compile(dialect=dialect())).split())
    for table in tables.metadata.tables.values()
    for index in table.indexes
}
"""By their names the statements of the indexes that no constraint makes."""


def sentences(connection: Connection) -> list[str]:
    """Say what there is; nothing of another database than SQLite's."""
    if connection.dialect.name != "sqlite":
        return []
    names = list(_foreign(connection))
    some = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return [f"the file has rules or views, which are none of ours: {some}"] if names else []


def index_faults(connection: Connection) -> list[str]:
    """Say where an SQLite file's indexes do not have what its tables have: reads by them find other rows, or none.

    The whole file is read.
    """
    if connection.dialect.name != "sqlite":
        return []
    verdicts = [str(row[0]) for row in connection.exec_driver_sql(_INTEGRITY).all()]
    if verdicts == ["ok"]:
        return []
    faults = "; ".join(verdicts)
    cure = "REINDEX (of sqlite3) makes the indexes anew; then verify again"
    return [f"the file's indexes and tables do not fit together: {faults}. {cure}"]


def _foreign(connection: Connection) -> Iterator[str]:
    for kind, name, table, text in connection.exec_driver_sql(_MASTER).all():
        if kind in ("trigger", "view"):
            yield f"{kind} {name}"
        elif kind == "table" and (match := _RULES.search(text or "")):
            yield f"{match[1].upper()} in the table {table}"
        elif kind == "index" and text and " ".join(text.split()) != _OURS.get(name):
            yield f"index {name}"
    for table in tables.metadata.tables.values():
        yield from (f"UNIQUE in the table {table.name}" for _ in _more_unique(connection, table))


def _more_unique(connection: Connection, table: Table) -> list[tuple[str, ...]]:
    """The columns of each constraint that the table has, and ours has not."""
    indexes: dict[str, list[str]] = {}
    for index, column in connection.exec_driver_sql(_UNIQUE, (table.name,)).all():
        indexes.setdefault(index, []).append(column)
    constraints = [
        constraint for constraint in table.constraints if isinstance(constraint, UniqueConstraint)
    ]
    own_columns = {
        tuple(c.name for c in constraint.columns)
        for constraint in (table.primary_key, *constraints)
    }
    return [columns for columns in map(tuple, indexes.values()) if columns not in own_columns]
