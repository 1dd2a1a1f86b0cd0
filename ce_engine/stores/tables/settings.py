"""What owners set, in its table: functions of a connection, each in one transaction."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, and_, bindparam, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting
from ce_engine.stores import owner_settings as owned
from ce_engine.stores import sealing
from ce_engine.stores.codec import from_json, to_json
from ce_engine.stores.tables import tables
from ce_engine.stores.tables.command import Command, inserting


_t = tables.settings
_OWNER = ("account_id", "user_id")
_KEY = (*_OWNER, "project_id", "name")


def _of(*names: str) -> Any:
    return and_(*(_t.c[name] == bindparam(name) for name in names))


_GET = select(_t.c.value, _t.c.version).where(_of(*_KEY))
_upsert = upsert(_t)
_PUT = inserting(
    _t,
    _upsert.on_conflict_do_update(
        index_elements=_KEY,
        set_={name: _upsert.excluded[name] for name in ("version", "value")},
    ),
)
_EMPTY = Command(
    update(_t)
    .where(_of(*_OWNER), _t.c.value.is_not(None))
    .values(value=None, version=_t.c.version + 1)
)


def _values(scope: Scope, name: str) -> dict[str, Any]:
    key = (scope.account_id, scope.user_id, scope.project_id, name)
    return dict(zip(_KEY, key, strict=True))


def get(connection: Connection, scope: Scope, name: str) -> Setting | None:
    """The setting, if it is there and was not deleted."""
    known = _known(connection, scope, name)
    return None if known is None or known.value is None else known


def _known(connection: Connection, scope: Scope, name: str) -> Setting | None:
    with sealing.of_session(owned.key_of(scope)):
        row = connection.execute(_GET, _values(scope, name)).first()
    return None if row is None else Setting(None if row[0] is None else from_json(row[0]), row[1])


def put(
    connection: Connection, scope: Scope, name: str, value: Any, expected_version: int | None
) -> int:
    """Replace the setting, inside a transaction that nobody else writes in."""
    known = _known(connection, scope, name)
    version = owned.next_version(name, known, value, expected_version)
    values = _values(scope, name)
    with sealing.of_session(owned.key_of(scope)):
        _PUT.run(connection, values | {"version": version, "value": to_json(value)})
    return version


def delete(connection: Connection, account_id: str, user_id: str) -> int:
    """Empty all settings of the user; their bytes leave the file with the next purge."""
    return _EMPTY.run(connection, {"account_id": account_id, "user_id": user_id})
