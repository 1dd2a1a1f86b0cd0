"""The settings of one owner in memory, and how writes change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ce_engine.errors import VersionConflictError
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Setting, Standing
from ce_engine.stores.codec import fresh_data


Owner = tuple[str, str]
"""Account and user."""

Owned = dict[tuple[str, str], Setting]
"""By project and name. What was deleted keeps its version, with the value `None`: versions go on."""


def owner_of(scope: Scope) -> Owner:
    """Whose settings a scope means."""
    return scope.account_id, scope.user_id


def key_of(scope: Scope) -> tuple[str, str, str]:
    """What an owner's settings are sealed for: any session of the owner's reads them."""
    return scope.account_id, scope.user_id, ""


def find(owned: Owned, scope: Scope, name: str) -> Setting | None:
    """A copy of the setting; `None` if there is none, or none any more: one that was made to be none is there."""
    setting = owned.get((scope.project_id, name))
    if setting is None or _is_gone(setting):
        return None
    return setting._replace(value=fresh_data(setting.value))


def _is_gone(setting: Setting) -> bool:
    return setting.value is None and setting.standing is not Standing.FORGED


def listed(owners: Mapping[Owner, Owned]) -> dict[tuple[str, ...], Setting]:
    """By account, user, project and name all that is there, and what was forged to be none."""
    return {
        (*owner, *key): setting._replace(value=fresh_data(setting.value))
        for owner, settings in owners.items()
        for key, setting in settings.items()
        if not _is_gone(setting)
    }


def version_of(owned: Owned, project_id: str) -> int:
    """What every write to a setting of the project moves."""
    return sum(setting.version for key, setting in owned.items() if key[0] == project_id)


def check_value(name: str, value: Any) -> None:
    """Raise `ValueError` if a setting is given `None`, which is none."""
    if value is None:
        raise ValueError(f"setting {name!r} was given None, expected plain JSON data")


def next_version(
    name: str, setting: Setting | None, value: Any, expected_version: int | None
) -> int:
    """The version of a setting that is put.

    Raises:
        VersionConflictError: `expected_version` is not the stored one; 0 is that of none.
        ValueError: the value is `None`, which is none.
    """
    check_value(name, value)
    last = setting.version if setting is not None else 0
    there = last if setting is not None and not _is_gone(setting) else 0
    if expected_version is not None and expected_version != there:
        raise VersionConflictError(
            f"setting {name!r} has version {there}, expected {expected_version}; read it again"
        )
    return last + 1


def put(
    owned: Owned,
    scope: Scope,
    name: str,
    value: Any,
    expected_version: int | None,
    standing: Standing = Standing.INTACT,
) -> tuple[Owned, int]:
    """The settings with one more or another value, and its version; `owned` stays as it was."""
    key = scope.project_id, name
    version = next_version(name, owned.get(key), value, expected_version)
    return {**owned, key: Setting(fresh_data(value), version, standing)}, version


def emptied(owned: Owned) -> tuple[Owned, int]:
    """The settings without their values, and how many went.

    All versions move but those of what was deleted before and is so still: another process may remember a
    value that was there before somebody forged it.
    """
    count = sum(not _is_gone(setting) for setting in owned.values())
    left = {
        key: setting if setting == Setting(None, setting.version) else _deleted(setting)
        for key, setting in owned.items()
    }
    return left, count


def _deleted(setting: Setting) -> Setting:
    return Setting(None, setting.version + 1)
