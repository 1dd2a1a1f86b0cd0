"""MACs of what owners set: nobody without the secret forges, deletes or puts back one setting unnoticed (B-01).

A setting has a MAC of its own, over whose it is, its version and its value; and one that is the same for all
of an owner's settings in a project, over the MACs of these. So one from elsewhere, one more, one less and an
earlier state of one are found out; an earlier state of all of them together is not: it was genuine once. What
was found of a setting is in its MAC too, and stays when others are written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ce_engine.errors import ContextEngineError
from ce_engine.schema.ids import chain_keys
from ce_engine.schema.settings import Setting, SettingsCheck, Standing
from ce_engine.stores.codec import to_json
from ce_engine.stores.owner_settings import Owned, Owner


BYTES = 16
"""Of each of the two."""

_SPOILT = "it is damaged, and cannot be read; set it anew, or delete it with its user"

NO_SETTING_MACS = SettingsCheck(unverified=("settings: this store keeps no MACs of them",))


class StoredSetting(NamedTuple):
    """A setting as it is kept; `macs` are both of them, nothing where an older release wrote it.

    One that somebody spoilt is not what was set, whatever its MACs say; what cannot be read of it is nothing.
    """

    value: Any
    version: int
    macs: bytes
    is_spoilt: bool = False


Stored = Mapping[tuple[str, str], StoredSetting]
"""By project and name."""


def key_of(secret: bytes, owner: Owner) -> bytes:
    """The key of an owner's MACs; no session has an empty id."""
    return chain_keys(secret, (*owner, "")).own


def sign(key: bytes, owned: Owned) -> dict[tuple[str, str], bytes]:
    """The MACs of all settings of an owner, or of one in a project, with what was found of each."""
    own = {place: _own(key, place, *setting) for place, setting in owned.items()}
    together = {project: _together(key, own, project) for project, _ in own}
    return {place: mac + together[place[0]] for place, mac in own.items()}


def owned_of(key: bytes | None, settings: Stored) -> Owned:
    """The settings with what their MACs say; without the key, nothing can be said."""
    standings: dict[tuple[str, str], Standing] = {}
    for project in {project for project, _ in settings}:
        here = {place: setting for place, setting in settings.items() if place[0] == project}
        standings |= _standings(key, project, here)
    return {
        place: Setting(setting.value, setting.version, standings[place])
        for place, setting in settings.items()
    }


def _standings(key: bytes | None, project: str, here: Stored) -> Mapping[tuple[str, str], Standing]:
    if key is None or _are_older(here):
        forms = {False: Standing.UNVERIFIED, True: Standing.FORGED}
        return {place: forms[setting.is_spoilt] for place, setting in here.items()}
    if not _are_all(key, project, here):
        return dict.fromkeys(here, Standing.FORGED)
    return {place: _read(key, place, setting) or Standing.FORGED for place, setting in here.items()}


def checks_of(key: bytes, settings: Stored) -> dict[str, SettingsCheck]:
    """By project what is to be said of the settings."""
    checks = {}
    for project in sorted({project for project, _ in settings}):
        here = {
            place: setting for place, setting in sorted(settings.items()) if place[0] == project
        }
        wrong, unverified = _findings(key, project, here)
        checks[project] = SettingsCheck(
            sum(setting.value is not None for setting in here.values()),
            sum(setting.version for setting in here.values()),
            next(iter(here.values())).macs[BYTES:].hex(),
            tuple(wrong),
            tuple(unverified),
        )
    return checks


def _findings(key: bytes, project: str, here: Stored) -> tuple[list[str], list[str]]:
    """What is wrong with the settings of a project, and what cannot be verified."""
    names = ", ".join(name for _, name in here)
    wrong = [f"{name}: {_SPOILT}" for (_, name), setting in here.items() if setting.is_spoilt]
    unverified = list[str]()
    if _are_older(here):
        whole = [name for (_, name), setting in here.items() if not setting.is_spoilt]
        if whole:
            unverified.append(f"{', '.join(whole)}: an older release wrote it, without MACs")
        return wrong, unverified
    standings = {
        name: _read(key, (project, name), setting)
        for (_, name), setting in here.items()
        if not setting.is_spoilt
    }
    for name, standing in standings.items():
        if standing is None:
            wrong.append(f"{name}: not what was set, or of somebody else, or not in its place")
        elif standing is Standing.FORGED:
            wrong.append(f"{name}: it was forged once, and nobody has set or accepted it since")
        elif standing is Standing.UNVERIFIED:
            unverified.append(f"{name}: it rests on what an older release wrote, without MACs")
    if None not in standings.values() and not _are_all(key, project, here):
        wrong.append(f"{names}: one was deleted, put in, or put back to what it was before")
    return wrong, unverified


def checks_of_owners(
    secret: Callable[[], bytes], owners: Mapping[Owner, Stored | ContextEngineError]
) -> dict[tuple[str, str, str], SettingsCheck]:
    """By account, user and project what is to be said of what owners set; what cannot be read is wrong."""
    all_checks: dict[tuple[str, str, str], SettingsCheck] = {}
    for owner, settings in owners.items():
        if isinstance(settings, ContextEngineError):
            all_checks[*owner, ""] = SettingsCheck(wrong=(str(settings),))
        else:
            checks = checks_of(key_of(secret(), owner), settings)
            all_checks |= {(*owner, project): check for project, check in checks.items()}
    return all_checks


def _are_older(here: Stored) -> bool:
    return not any(setting.macs for setting in here.values())


def _are_all(key: bytes, project: str, here: Stored) -> bool:
    """Whether these are the settings that were there when one was written last, at those versions."""
    own = {place: setting.macs[:BYTES] for place, setting in here.items()}
    together = _together(key, own, project)
    return all(setting.macs[BYTES:] == together for setting in here.values())


def _read(key: bytes, place: tuple[str, str], setting: StoredSetting) -> Standing | None:
    """What its own MAC says; nothing if it is another's, or of something spoilt."""
    if setting.is_spoilt:
        return None
    has = setting.macs[:BYTES]
    for standing in Standing:
        if _own(key, place, setting.value, setting.version, standing) == has:
            return standing
    return None


def _own(key: bytes, place: tuple[str, str], value: Any, version: int, standing: Standing) -> bytes:
    return _mac(key, [*place, version, standing, value], b"setting")


def _together(key: bytes, own: Mapping[tuple[str, str], bytes], project: str) -> bytes:
    macs = [[name, mac.hex()] for (its, name), mac in sorted(own.items()) if its == project]
    return _mac(key, [project, macs], b"settings")


def _mac(key: bytes, fields: list[Any], person: bytes) -> bytes:
    text = to_json(fields).encode()
    return hashlib.blake2b(text, key=key, digest_size=BYTES, person=person).digest()
