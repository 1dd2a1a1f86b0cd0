"""What of a database is none of ours, and may decide by itself what is written to it or read of it (B-01)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from ce_engine.stores.tables import foreign_postgres, tables


_NAMED = 3
"""What a sentence names."""
_SHOWN = 60
"""Characters of a definition that a sentence shows."""
_MOST = 4_000
"""Characters of a statement, several times those of ours: a longer one is not taken apart."""
_MASTER = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
_INTEGRITY = f"PRAGMA integrity_check({_NAMED})"

_SPACE = re.compile(r"[ \t\n\f\r]+")
_TABLE = re.compile(r"CREATE TABLE (\w+) ?\((.*)\)((?: WITHOUT ROWID)?) ?", re.ASCII)
_BETWEEN = re.compile(r",(?![^()]*\))")
"""A comma between two definitions: those of ours have parentheses, and none in them."""
_TABLES = tables.metadata.tables
_NAMES = {*_TABLES, *(column.name for table in _TABLES.values() for column in table.c)}
_QUOTED = re.compile(f'"({"|".join(_NAMES)})"')
"""A name of ours in quotes, as SQLite and Alembic write it where a table was renamed or made anew."""
_OF_ALEMBIC = f"CONSTRAINT {tables.revisions.name}_pkc "
"""How it names the key of its table, where it made it."""

Definitions = Counter[str]


def _plain(statement: Any) -> str:
    """A statement in one form. Nothing else is made equal: no comment, no letter's case, no other quotes.

    So what is equal to one of ours is one of ours for SQLite, too, however it may read another one.
    """
    plain = _QUOTED.sub(r"\1", _SPACE.sub(" ", str(statement)).strip(" "))
    return plain.replace(_OF_ALEMBIC, "")


def _definitions(statement: str) -> tuple[str, Definitions]:
    """A table's name and its definitions, in any order: an upgrade adds columns at the end."""
    match = _TABLE.fullmatch(statement) if len(statement) < _MOST else None
    if match is None:
        return "", Counter()
    parts = [part.strip(" ") for part in _BETWEEN.split(match[2])]
    return match[1], Counter([*parts, match[3].strip(" ")])


_OUR_TABLES = dict(
    _definitions(_plain(CreateTable(table).compile(dialect=dialect())))
    for table in _TABLES.values()
)
_OUR_INDEXES = {
    (str(index.name), table.name): _plain(CreateIndex(index).compile(dialect=dialect()))
    for table in _TABLES.values()
    for index in table.indexes
}
_OF_SQLITE = {
    "sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)",
    "sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "sqlite_stat3": "CREATE TABLE sqlite_stat3(tbl,idx,neq,nlt,ndlt,sample)",
    "sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
}
"""Tables that SQLite makes for itself, as where somebody asks it to `ANALYZE`."""


def sentences(connection: Connection) -> list[str]:
    """Say what there is."""
    if connection.dialect.name == "sqlite":
        problem = "the file has tables, rules or views, which are none of ours"
        names = list(_foreign(connection))
    else:
        problem = "the server shows or changes our tables otherwise than they are stored"
        names = list(foreign_postgres.foreign(connection))
    some = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return [f"{problem}: {some}"] if names else []


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
    """What is not, letter by letter, what we make: SQLite goes by the statements alone, and reads more than we could."""
    for kind, name, table, statement in connection.exec_driver_sql(_MASTER).all():
        if statement is None:  # of a constraint; SQLite refuses a file where it belongs to none
            is_ours = kind == "index" and str(name).startswith("sqlite_autoindex_ce_")
        elif kind == "index":
            is_ours = _plain(statement) == _OUR_INDEXES.get((name, table))
        elif kind == "table" and name == table in _OUR_TABLES:
            yield from _not_ours(name, _plain(statement))
            continue
        else:
            is_ours = kind == "table" and name == table and statement == _OF_SQLITE.get(name)
        if not is_ours:
            yield f"{kind} {name}"


def _not_ours(name: str, statement: str) -> Iterator[str]:
    """What a table of ours has that is none of ours; its name, where it lacks something."""
    table, definitions = _definitions(statement)
    ours = _OUR_TABLES[name]
    if table != name:
        yield f"table {name}"
    elif more := [*(definitions - ours)]:
        yield from (f"{part[:_SHOWN]} in the table {name}" for part in more)
    elif definitions != ours:
        yield f"table {name}"
