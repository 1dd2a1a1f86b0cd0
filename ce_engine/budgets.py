"""Budgets that owners store: they hold for calls whose configuration gives none (D-04)."""

from __future__ import annotations

from ce_engine.config import BudgetConfig
from ce_engine.doors import doors
from ce_engine.errors import BudgetConflictError, ConfigError, VersionConflictError
from ce_engine.runtime.loop import LoopThread
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.settings import BUDGET, Settings


@doors
class Budgets:
    """Reads and replaces the budget of (account, user, project); the session does not matter.

    Raises:
        StoreUnavailableError: the store does not answer.
    """

    def __init__(self, settings: Settings, loop: LoopThread) -> None:
        self._settings = settings
        self._loop = loop

    async def get(self, scope: Scope | str) -> tuple[BudgetConfig, int]:
        """The stored budget and its version; the default one and 0 where none is stored.

        One that is stored and no budget reads as the default too, with its version, so that it can
        be replaced.
        """
        found = await self._loop.share(self._settings.get(as_scope(scope), BUDGET))
        if found is None:
            return BudgetConfig(), 0
        try:
            return BudgetConfig(**found.value), found.version
        except (ConfigError, TypeError):
            return BudgetConfig(), found.version

    async def update(self, scope: Scope | str, budget: BudgetConfig, expected_version: int) -> int:
        """Replace the budget as it was read with `expected_version`; its new version.

        Raises:
            BudgetConflictError: another one was stored meanwhile; nothing was overwritten.
        """
        value = budget.model_dump(mode="json", exclude_unset=True)
        put = self._settings.put(as_scope(scope), BUDGET, value, expected_version)
        try:
            return await self._loop.share(put)
        except VersionConflictError as error:
            raise BudgetConflictError(
                f"the budget was not stored: {error}, and decide on what is there now"
            ) from None
