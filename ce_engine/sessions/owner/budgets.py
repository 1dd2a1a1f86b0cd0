"""Budgets that owners store: they hold for calls whose configuration gives none (D-04)."""

from __future__ import annotations

from typing import Protocol

from ce_engine.config import BudgetConfig
from ce_engine.errors import (
    BudgetConflictError,
    ConfigError,
    ScopeViolationError,
    VersionConflictError,
)
from ce_engine.runtime.loop import LoopThread
from ce_engine.schema.arguments import doors
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.schema.settings import Standing
from ce_engine.sessions.owner.settings import BUDGET, SettingsCache


class Parts(Protocol):
    """What is needed of the engine."""

    loop: LoopThread


@doors
class Budgets:
    """Reads and replaces the budget of (account, user, project); the session does not matter.

    Raises:
        StoreUnavailableError: the store does not answer.
    """

    def __init__(self, settings: SettingsCache, parts: Parts) -> None:
        self._settings = settings
        self._parts = parts

    async def get(self, scope: Scope | str) -> tuple[BudgetConfig, int]:
        """The stored budget and its version; the default one and 0 where none is stored.

        One that is stored and no budget, or was forged, reads as the default too, with its version, so
        that it can be replaced.
        """
        setting = await self._parts.loop.share(self._settings.get(as_scope(scope), BUDGET))
        if setting is None:
            return BudgetConfig(), 0
        if setting.standing is Standing.FORGED:
            return BudgetConfig(), setting.version
        try:
            return BudgetConfig(**setting.value), setting.version
        except (ConfigError, TypeError):
            return BudgetConfig(), setting.version

    async def update(
        self, scope: Scope | str, budget: BudgetConfig, expected_version: int, *, actor: str
    ) -> int:
        """Replace the budget as it was read with `expected_version`; its new version.

        Shares and what is never left out are the owner's to decide, not an agent's or a tool's (D-16):
        only who is named, and whom the engine's `authorize(actor, "change", scope)` allows, may change them.

        Args:
            scope: whose, and of which project.
            budget: the new one.
            expected_version: that of the budget that was read; 0 where none was stored.
            actor: who changes it: by default the user whose budget it is.

        Raises:
            ScopeViolationError: this actor may not; nothing was stored.
            BudgetConflictError: another one was stored meanwhile; nothing was overwritten.
        """
        return await self._parts.loop.share(
            self._update(as_scope(scope), budget, expected_version, actor)
        )

    async def _update(
        self, scope: Scope, budget: BudgetConfig, expected_version: int, actor: str
    ) -> int:
        if scope.user_id and not actor:
            raise ScopeViolationError(
                "the budget was not stored: its owner decides on it. Give actor, whom the engine's "
                "`authorize` allows: by default the user of the scope"
            )
        value = budget.model_dump(mode="json", exclude_unset=True)
        try:
            return await self._settings.put(scope, BUDGET, value, expected_version)
        except VersionConflictError as error:
            raise BudgetConflictError(
                f"the budget was not stored: {error}, and decide on what is there now"
            ) from None
