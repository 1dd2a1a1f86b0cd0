"""What owners set, asked for and told of like all that is stored (B-05, D-16)."""

from __future__ import annotations

from typing import Protocol

from ce_engine.audit.access import BUDGET_DOORS, CONSTRAINT_DOORS, AccessGuard, guarded
from ce_engine.ports.audit import Authorize
from ce_engine.runtime.loop import LoopThread
from ce_engine.sessions.owner.budgets import Budgets
from ce_engine.sessions.owner.constraints import Constraints, Parts
from ce_engine.sessions.owner.settings import SettingsCache


class Guards(Protocol):
    """What of the engine is asked each time: an app may set another `authorize`."""

    loop: LoopThread
    guard: AccessGuard
    authorize: Authorize


class GuardingParts(Guards, Parts, Protocol):
    """The same, and what constraints need."""


@guarded(CONSTRAINT_DOORS, "constraints.")
class GuardedConstraints(Constraints):
    """The constraints of an engine."""

    def __init__(self, settings: SettingsCache, engine: GuardingParts) -> None:
        super().__init__(settings, engine)
        self._engine = engine

    @property
    def guard(self) -> AccessGuard:
        return self._engine.guard

    @property
    def authorize(self) -> Authorize:
        return self._engine.authorize


@guarded(BUDGET_DOORS, "budgets.")
class GuardedBudgets(Budgets):
    """The budgets of an engine."""

    def __init__(self, settings: SettingsCache, engine: Guards) -> None:
        super().__init__(settings, engine.loop)
        self._engine = engine

    @property
    def guard(self) -> AccessGuard:
        return self._engine.guard

    @property
    def authorize(self) -> Authorize:
        return self._engine.authorize
