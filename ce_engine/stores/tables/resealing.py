"""What is stored, sealed anew under the key that seals now (19 B.9): a session in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table, bindparam, select, update

from ce_engine.errors import EncryptionKeyError, FileDamagedError
from ce_engine.schema.scope import Scope
from ce_engine.stores import sealing
from ce_engine.stores.codec import from_json, unescape
from ce_engine.stores.tables import statements as sql
from ce_engine.stores.tables import tables
from ce_engine.stores.tables.compiled_statements import Command, Query
from ce_engine.stores.tables.macs import CONTENT
from ce_engine.stores.tables.settings import NO_VALUE
from ce_engine.stores.tables.table_change import Head, TableChange
from ce_engine.stores.tables.writes import finish, head_of, macs_of


_s, _t = tables.sessions, tables.settings


def sealed_columns(table: Table) -> list[str]:
    """The columns of content."""
    return [column.name for column in table.c if isinstance(column.type, tables.Sealed)]


class _Rows:
    """The sealed columns of a session's rows in one table, which a key of theirs finds again."""

    def __init__(self, table: Table, *key: str, of: str = "session") -> None:
        names = sealed_columns(table)
        here = table.c[of] == bindparam("this", type_=table.c[of].type)
        self._names = [*key, *names]
        self._kept = Query(select(*(table.c[name] for name in names)).where(here))
        self._select = select(*(table.c[name] for name in self._names)).where(here)
        self._update = Command(
            update(table)
            .where(here, *(table.c[name] == bindparam(f"of_{name}") for name in key))
            .values({name: bindparam(name) for name in names}),
            is_exact=True,
        )
        self._key = key

    def reseal(self, connection: Connection, session_number: int) -> None:
        """Open and seal them all, in place."""
        # Closed where one does not open, too: SQLite makes no file anew while a statement is under way.
        with connection.execute(self._select, {"this": session_number}) as result:
            rows = [dict(zip(self._names, row, strict=True)) for row in result]
        of = [{f"of_{name}": row[name] for name in self._key} for row in rows]
        values = [{**row, **key, "this": session_number} for row, key in zip(rows, of, strict=True)]
        self._update.run(connection, *values)

    def are_current(self, connection: Connection, session_number: int, key_id: str) -> bool:
        """Whether nothing is in the open, or under another key."""
        stored_rows = self._kept.all(connection, {"this": session_number})
        return all(_is_current(value, key_id) for row in stored_rows for value in row)


_ROWS = (
    *(
        _Rows(table, *(content.names[place] for place in content.key))
        for table, content in CONTENT.items()
        if sealed_columns(table)
    ),
    _Rows(tables.events, "seq"),
    _Rows(tables.sessions, of="id"),
)
_KEY = ("account_id", "user_id", "project_id", "name")
_PUT = Command(
    update(_t)
    .where(*(_t.c[n] == bindparam(f"of_{n}") for n in _KEY))
    .values(value=bindparam("value")),
    is_exact=True,
)
_RAW = Query(select(_t.c.account_id, _t.c.user_id, _t.c.project_id, _t.c.name, _t.c.value))


def _is_current(value: bytes | str | None, key_id: str) -> bool:
    return not value or sealing.key_id_of(value) == key_id


def reseal(connection: Connection, scope: Scope, now: str, secret: bytes, key_id: str) -> bool:
    """Seal a session anew, with MACs of what is there then; false if all of it is already."""
    session_row = head_of(connection, scope)
    if session_row is None:
        return False
    old = [rows for rows in _ROWS if not rows.are_current(connection, session_row["id"], key_id)]
    if not old:
        return False
    change = TableChange(
        connection,
        scope,
        Head(*(session_row[name] for name in ("id", *sql.MOVING))),
        secret,
        bytes(session_row["salt"]),
        macs_of(scope, secret, session_row, session_row),
        now,
        set(from_json(session_row["frameworks"] or "[]")),
        is_maker=False,
        updated_at=unescape(session_row["updated_at"]),
        repeats=False,
    )
    with change.compared():
        for rows in old:
            rows.reseal(connection, change.row_id)
    finish(change, session_row, is_other=True)
    return True


def reseal_settings(connection: Connection, key_id: str) -> tuple[int, list[str]]:
    """Seal what owners set anew; how many were not yet, and what is wrong with those that stay as they are."""
    count, wrong = 0, list[str]()
    for row in _RAW.all(connection, {}):
        try:
            count += _resealed(connection, row, key_id)
        except (*NO_VALUE, EncryptionKeyError, FileDamagedError) as error:
            account, user, project, name, _ = row
            place = f"account {account!r}, user {user!r}, project {project!r}"
            wrong.append(
                f"the setting {name!r} of {place} cannot be opened ({type(error).__name__})"
            )
    return count, wrong


def _resealed(connection: Connection, row: Sequence[Any], key_id: str) -> int:
    *key, value = row
    account_id, user_id, *_ = owner = [unescape(name) for name in key]
    if _is_current(value, key_id):
        return 0
    if not isinstance(value, str):
        raise TypeError("a value is no text")
    with sealing.of_session((account_id, user_id, "")):
        text = _t.c.value.type.read(value)  # type: ignore[attr-defined]
        from_json(text)
        of = {f"of_{name}": part for name, part in zip(_KEY, owner, strict=True)}
        return _PUT.run(connection, {**of, "value": text})
