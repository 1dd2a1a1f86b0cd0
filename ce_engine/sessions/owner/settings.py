"""What owners set for a project, remembered between calls and read anew only when it moved (D-04, D-06)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ce_engine.config import BudgetConfig, RuntimeConfig
from ce_engine.errors import (
    ConfigError,
    SchemaValidationError,
    SettingForgedError,
    StoreUnavailableError,
    VersionConflictError,
)
from ce_engine.ports.store import Store
from ce_engine.runtime.journal import Journal
from ce_engine.runtime.locks import KeyedLocks
from ce_engine.runtime.waiting import answered
from ce_engine.schema.degradation import SETTING_UNVERIFIED
from ce_engine.schema.enums import Priority
from ce_engine.schema.rows import Placeholder
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import CONSTRAINTS, Constraint, Setting, Standing, Versions
from ce_engine.sessions.view import BoundedDict
from ce_engine.text.tokens.call_tokens import FALLBACK


security = logging.getLogger("ce_engine.security")

_CODES = {Standing.FORGED: SettingForgedError.code, Standing.UNVERIFIED: SETTING_UNVERIFIED}
_SAYINGS = {
    Standing.FORGED: "the setting %r of an owner is not what was set, or was set with another secret: calls go on "
    "without it; see: ce verify",
    Standing.UNVERIFIED: "the setting %r of an owner has no MACs: an older release wrote it, or somebody took them "
    "away; see: ce verify",
}
BUDGET = "budget"
MAX_OWNERS = 1000
Key = tuple[str, str, str]
Change = Callable[[Any], Awaitable[Any]]
"""From the stored value (`None` if there is none) to the new one."""


@dataclass(frozen=True, slots=True)
class OwnerValues:
    """The settings of one owner in one project, at a version of theirs."""

    version: int = 0
    constraints: Sequence[Constraint] = ()
    budget: BudgetConfig | None = None
    warnings: Sequence[str] = ()
    unverified: frozenset[str] = frozenset()
    """The names of those that an older release wrote, without MACs."""

    def trusted(self, config: RuntimeConfig) -> OwnerValues:
        """What of it a call may have: without what cannot be verified, where the configuration says so."""
        if not (self.unverified and config.collect.only_verified):
            return self
        warnings = [
            code.replace(SETTING_UNVERIFIED, SettingForgedError.code) for code in self.warnings
        ]
        return OwnerValues(
            self.version,
            () if CONSTRAINTS in self.unverified else self.constraints,
            None if BUDGET in self.unverified else self.budget,
            warnings,
        )

    def budgeted(self, config: RuntimeConfig) -> RuntimeConfig:
        """The configuration with the stored budget, where it gives none itself; its own fields win."""
        budget = self.trusted(config).budget
        if budget is None or config.budget_is_given:
            return config
        stored_fields = {name: getattr(budget, name) for name in budget.model_fields_set}
        given_fields = {
            name: getattr(config.budget, name) for name in config.budget.model_fields_set
        }
        # The two may not go together: what is stored was meant for such calls.
        with suppress(ConfigError):
            budget = BudgetConfig(**{**stored_fields, **given_fields})
        return config.model_copy(update={"budget": budget})


class SettingsCache:
    """Reads and writes settings. What was read is remembered until their version moves."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        self._known: BoundedDict[Key, OwnerValues] = BoundedDict(MAX_OWNERS)
        self._warned: BoundedDict[tuple[str, ...], None] = BoundedDict(MAX_OWNERS)
        self._changing = KeyedLocks()

    async def owned(self, scope: Scope, version: int | None) -> OwnerValues:
        """The settings for a model call, within the store's deadline; without the store, the last known.

        Args:
            scope: whose, and of which project.
            version: theirs, if the session's cheap read told it already.

        Raises:
            StoreUnavailableError: the store is away, and nothing is known.
        """
        key = _key(scope)
        owner_values = self._known.get(key)
        try:
            if version is None:
                versions = await self._journal.read(lambda: self._store.version(scope), Versions)
                version = versions.settings
            if owner_values is None or owner_values.version != version:
                owner_values = await self._load(scope, version)
                self._known[key] = owner_values
        except StoreUnavailableError:
            if owner_values is None:
                raise
        return owner_values

    async def _load(self, scope: Scope, version: int) -> OwnerValues:
        if not version:
            return OwnerValues()
        store, read = self._store, self._journal.read
        constraints = await read(lambda: store.get_setting(scope, CONSTRAINTS), Setting | None)
        budget = await read(lambda: store.get_setting(scope, BUDGET), Setting | None)
        warnings, unverified = list[str](), set[str]()
        missing = _standing_of_missing((constraints, budget))
        for name, setting in ((CONSTRAINTS, constraints), (BUDGET, budget)):
            standing = setting.standing if setting is not None else missing
            if standing is not Standing.INTACT:
                self._warn_once(scope, name, standing)
                warnings.append(f"{_CODES[standing]}: {name}")
            if standing is Standing.UNVERIFIED:
                unverified.add(name)
        constraints, budget = _unforged(constraints), _unforged(budget)
        rules: Sequence[Constraint] = ()
        limit: BudgetConfig | None = None
        try:
            rules = in_order(parsed(constraints.value)[0]) if constraints else ()
        except SchemaValidationError:
            warnings.append(f"CONTEXT_SOURCE_MALFORMED: {CONSTRAINTS}")
        try:
            limit = BudgetConfig(**budget.value) if budget else None
        except (ConfigError, TypeError):
            warnings.append(FALLBACK)
        return OwnerValues(version, rules, limit, warnings, frozenset(unverified))

    def _warn_once(self, scope: Scope, name: str, standing: Standing) -> None:
        """Log once of each that it was forged, or cannot be verified."""
        warning_key = (*_key(scope), f"{name} {standing}")
        if warning_key not in self._warned:
            self._warned[warning_key] = None
            security.warning(_SAYINGS[standing], name)

    async def get(self, scope: Scope, name: str) -> Setting | None:
        """A setting as it is stored now; where one beside it is forged, one that is not there may have been taken away."""
        setting = await answered(self._store.get_setting(scope, name))
        if setting is None:
            others = [
                await answered(self._store.get_setting(scope, other))
                for other in (CONSTRAINTS, BUDGET)
                if other != name
            ]
            if (standing := _standing_of_missing(others)) is not Standing.INTACT:
                return Setting(None, 0, standing)
        return setting

    async def put(
        self,
        scope: Scope,
        name: str,
        value: Any,
        expected_version: int | None,
        standing: Standing = Standing.INTACT,
    ) -> int:
        """Store a setting; its new version."""
        # A store of somebody's own may keep no MACs, and know no standing.
        more = {} if standing is Standing.INTACT else {"standing": standing}
        return await answered(self._store.put_setting(scope, name, value, expected_version, **more))

    async def change(
        self, scope: Scope, name: str, change: Change, *, accepts: bool = False
    ) -> None:
        """Change a setting as it is stored now; once more if another process was faster.

        What rests on something unverified is so itself, unless a person has looked at it and `accepts` it.

        Raises:
            SettingForgedError: it was forged, and is not to be accepted.
            VersionConflictError: others were faster twice.
        """
        async with self._changing.hold((*_key(scope), name)):
            try:
                await self._change(scope, name, change, accepts=accepts)
            except VersionConflictError:
                await self._change(scope, name, change, accepts=accepts)

    async def _change(self, scope: Scope, name: str, change: Change, *, accepts: bool) -> None:
        value, version, standing = await self.get(scope, name) or Setting(None, 0)
        if standing is Standing.FORGED and not accepts:
            raise forgery_error(name)
        new_value = await change(value)
        await self.put(scope, name, new_value, version, Standing.INTACT if accepts else standing)

    async def delete(self, account_id: str, user_id: str) -> int:
        """Delete all settings of a user, and what is remembered of them; how many."""
        count = await answered(self._store.delete_settings(account_id, user_id))
        for key in [key for key in self._known if key[:2] == (account_id, user_id)]:
            del self._known[key]
        return count


def _standing_of_missing(settings: Sequence[Setting | None]) -> Standing:
    """What holds of a setting that is not there beside these: a MAC is over all that an owner set in a project."""
    is_forged = any(s is not None and s.standing is Standing.FORGED for s in settings)
    return Standing.FORGED if is_forged else Standing.INTACT


def _unforged(setting: Setting | None) -> Setting | None:
    return None if setting is not None and setting.standing is Standing.FORGED else setting


def forgery_error(name: str) -> SettingForgedError:
    """Say that a setting was forged, and what to do."""
    return SettingForgedError(
        f"the {name} of this user in this project are not what was set, or were set with another secret: "
        "nothing of them goes out, and nothing is changed. See `ce verify`, look at them with `ce constraints "
        "list --all`, and accept what is right with `ce constraints accept`; a budget is set anew"
    )


_ORDER = list(Priority)


def in_order(constraints: Sequence[Constraint]) -> list[Constraint]:
    """In the order in which they go out: most important first, then the oldest."""
    return sorted(constraints, key=lambda constraint: _ORDER.index(constraint.priority))


def parsed(value: Any) -> tuple[list[Constraint], list[Placeholder]]:
    """Stored constraints, oldest first, and the placeholders that they were given.

    Raises:
        SchemaValidationError: what is stored is neither.
    """
    if value is None:
        return [], []
    try:
        placeholders = [
            Placeholder(str(label), bytes.fromhex(mac), int(number))
            for label, mac, number in value["placeholders"]
        ]
        return [Constraint.model_validate(item) for item in value["items"]], placeholders
    except (ValueError, KeyError, TypeError) as error:
        raise SchemaValidationError(
            f"what is stored as constraints is none ({type(error).__name__}). It was left as it is."
        ) from None


def _key(scope: Scope) -> Key:
    return scope.account_id, scope.user_id, scope.project_id
