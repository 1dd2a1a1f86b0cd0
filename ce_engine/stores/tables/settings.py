"""What owners set, in its table: functions of a connection, each in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, and_, bindparam, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from ce_engine.errors import ContextEngineError, FileDamagedError
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting, SettingsCheck, Standing
from ce_engine.stores import owner_settings as owned
from ce_engine.stores import sealing, setting_macs
from ce_engine.stores.base import SEALED_BY
from ce_engine.stores.codec import from_json, to_json, unescape
from ce_engine.stores.owner_settings import Owned, Owner
from ce_engine.stores.setting_macs import StoredSetting
from ce_engine.stores.tables import rows, tables
from ce_engine.stores.tables.compiled_statements import Command, Query, inserting


_t = tables.settings
_OWNER = ("account_id", "user_id")
_PROJECT = (*_OWNER, "project_id")
_KEY = (*_PROJECT, "name")
_SEAL = owned.owner_of(SEALED_BY)
NO_VALUE = (ValueError, TypeError, AttributeError)
"""Raised by what somebody spoilt."""
_ROW = tuple(_t.c[name] for name in (*_KEY, "version", "value", "macs"))

Secret = Callable[[], bytes]
Stored = dict[tuple[str, str], StoredSetting]


def _of(*names: str) -> Any:
    return and_(*(_t.c[name] == bindparam(name) for name in names))


_IN_PROJECT = Query(select(*_ROW).where(_of(*_PROJECT)))
_OF_OWNER = Query(select(*_ROW).where(_of(*_OWNER)))
_ALL = Query(select(*_ROW))
_upsert = upsert(_t)
_PUT = inserting(
    _t,
    _upsert.on_conflict_do_update(
        index_elements=_KEY,
        set_={name: _upsert.excluded[name] for name in ("version", "value", "macs")},
    ),
)
_SIGN = Command(
    update(_t)
    .where(*(_t.c[name] == bindparam(f"of_{name}") for name in _KEY))
    .values(macs=bindparam("macs")),
)
"""Not exact: a row that keeps its old MACs is named by the next check, and stops no other setting of its owner."""


def get(connection: Connection, scope: Scope, name: str, secret: Secret) -> Setting | None:
    """The setting, if it is there and was not deleted, with what its MACs say."""
    return owned.find(_in_project(connection, scope, secret), scope, name)


def _in_project(connection: Connection, scope: Scope, secret: Secret) -> Owned:
    key = dict(zip(_PROJECT, (*owned.owner_of(scope), scope.project_id), strict=True))
    settings = _group_by_owner(_IN_PROJECT.all(connection, key)).get(owned.owner_of(scope), {})
    return owned_of(owned.owner_of(scope), settings, secret)


def owned_of(owner: Owner, settings: Stored, secret: Secret) -> Owned:
    """The settings with what their MACs say; without any, no secret is asked for, nor made."""
    has_macs = any(setting.macs for setting in settings.values())
    return setting_macs.owned_of(
        setting_macs.key_of(secret(), owner) if has_macs else None, settings
    )


def _group_by_owner(records: Iterable[Any]) -> dict[Owner, Stored]:
    """Rows by their owners; what is sealed is opened."""
    owners: dict[Owner, Stored] = {}
    for *key, version, value, macs in records:
        if (names := rows.names(key)) is None:  # nobody's: `nameless` tells of it
            continue
        owner, place = (names[0], names[1]), (names[2], names[3])
        setting = _as_kept(version, value, macs)
        try:
            with sealing.of_session((*owner, "")):
                setting = setting._replace(value=_opened(value))
        except NO_VALUE:
            if owner == _SEAL:  # it is sealed with another key than is here
                raise
            setting = setting._replace(value=None, is_spoilt=True)
        owners.setdefault(owner, {})[place] = setting
    return owners


def _opened(value: Any) -> Any:
    text = None if value is None else _t.c.value.type.read(value)  # type: ignore[attr-defined]
    return None if text is None else from_json(text)


def _as_kept(version: Any, value: Any, macs: Any) -> StoredSetting:
    """A row without its value opened; SQLite keeps in a column what somebody puts there, of any type."""
    is_version = isinstance(version, int) and 0 <= version <= rows.MOST
    is_macs = isinstance(macs, bytes | memoryview | None)
    mac_bytes = bytes(macs or b"") if is_macs else b""
    if len(mac_bytes) not in (0, 2 * setting_macs.BYTES):
        mac_bytes, is_macs = b"", False
    return StoredSetting(
        value, version if is_version else 0, mac_bytes, is_spoilt=not (is_version and is_macs)
    )


def put(
    connection: Connection,
    scope: Scope,
    name: str,
    value: Any,
    expected_version: int | None,
    secret: Secret,
    standing: Standing = Standing.INTACT,
) -> int:
    """Replace the setting, inside a transaction that nobody else writes in."""
    old = _in_project(connection, scope, secret)
    new, version = owned.put(old, scope, name, value, expected_version, standing)
    _write(connection, owned.owner_of(scope), old, new, secret)
    return version


def delete(connection: Connection, account_id: str, user_id: str, secret: Secret) -> int:
    """Empty all settings of the user; their bytes leave the file with the next purge."""
    owner = account_id, user_id
    result = _OF_OWNER.all(connection, dict(zip(_OWNER, owner, strict=True)))
    settings = {  # no value is opened: it may be spoilt
        (unescape(project), unescape(name)): _as_kept(version, value, macs)
        for *_, project, name, version, value, macs in result
        if rows.names((project, name)) is not None
    }
    old = owned_of(owner, settings, secret)
    new, count = owned.emptied(old)
    if new != old:
        _write(connection, owner, {}, new, secret)
    return count


def _write(connection: Connection, owner: Owner, old: Owned, new: Owned, secret: Secret) -> None:
    """Write the settings that are other than they were, and the MACs of those that stay beside them."""
    macs = setting_macs.sign(setting_macs.key_of(secret(), owner), new)
    for place, setting in new.items():
        key = (*owner, *place)
        if old.get(place) == setting:
            of = {f"of_{name}": part for name, part in zip(_KEY, key, strict=True)}
            _SIGN.run(connection, {**of, "macs": macs[place]})
            continue
        values: dict[str, Any] = {
            "version": setting.version,
            "value": None if setting.value is None else to_json(setting.value),
            "macs": macs[place],
        }
        with sealing.of_session((*owner, "")):
            _PUT.run(connection, dict(zip(_KEY, key, strict=True)) | values)


def list_all(connection: Connection, secret: Secret) -> dict[tuple[str, ...], Setting]:
    """By account, user, project and name what owners set."""
    settings_by_owner = _group_by_owner(_ALL.all(connection, {}))
    return owned.listed(
        {owner: owned_of(owner, settings, secret) for owner, settings in settings_by_owner.items()}
    )


def check(
    connection: Connection, secret: Secret, account_id: str | None, user_id: str | None
) -> dict[tuple[str, str, str], SettingsCheck]:
    """By account, user and project what the MACs say."""
    rows_by_owner: dict[Owner, list[Any]] = {}
    for row in _ALL.all(connection, {}):
        if (names := rows.names(row[:4])) is None:
            continue
        owner = names[0], names[1]
        if account_id in (None, owner[0]) and user_id in (None, owner[1]):
            rows_by_owner.setdefault(owner, []).append(row)
    settings_by_owner: dict[Owner, Stored | ContextEngineError] = {}
    for owner, owner_rows in rows_by_owner.items():
        try:
            settings_by_owner[owner] = _group_by_owner(owner_rows)[owner]
        except (ValueError, TypeError) as error:
            settings_by_owner[owner] = FileDamagedError(
                f"a setting of this owner's is damaged ({type(error).__name__}). It was left as it is: set it "
                "anew, or delete it"
            )
    return setting_macs.checks_of_owners(secret, settings_by_owner)


def nameless(connection: Connection) -> list[str]:
    """Settings of which nobody can say whose they are: a sentence each."""
    names = [row[:4] for row in _ALL.all(connection, {}) if rows.names(row[:4]) is None]
    return [f"a setting in the table {_t.name} has a name that is none" for _ in names]
