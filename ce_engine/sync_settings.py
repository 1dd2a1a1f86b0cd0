"""What owners set, for synchronous callers: constraints and budgets (C-12)."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.config import BudgetConfig
from ce_engine.engine import Engine
from ce_engine.schema.enums import Priority
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Constraint


class SyncConstraints:
    """The methods of `Constraints`, blocking."""

    def __init__(self, engine: Engine) -> None:
        self._constraints = engine.constraints
        self._run = engine.loop.run

    def list(self, scope: Scope | str, *, kind: str | None = None) -> Sequence[Constraint]:
        return self._run(self._constraints.list(scope, kind=kind))

    def create(
        self,
        scope: Scope | str,
        text: str,
        *,
        derived: bool = False,
        priority: Priority | None = None,
        kind: str = "",
    ) -> Constraint:
        return self._run(
            self._constraints.create(scope, text, derived=derived, priority=priority, kind=kind)
        )

    def update(
        self,
        scope: Scope | str,
        constraint_id: str,
        *,
        text: str | None = None,
        priority: Priority | None = None,
        kind: str | None = None,
    ) -> Constraint:
        return self._run(
            self._constraints.update(scope, constraint_id, text=text, priority=priority, kind=kind)
        )

    def delete(self, scope: Scope | str, constraint_id: str) -> None:
        self._run(self._constraints.delete(scope, constraint_id))


class SyncBudgets:
    """The methods of `Budgets`, blocking."""

    def __init__(self, engine: Engine) -> None:
        self._budgets = engine.budgets
        self._run = engine.loop.run

    def get(self, scope: Scope | str) -> tuple[BudgetConfig, int]:
        return self._run(self._budgets.get(scope))

    def update(
        self, scope: Scope | str, budget: BudgetConfig, expected_version: int, *, actor: str
    ) -> int:
        return self._run(self._budgets.update(scope, budget, expected_version, actor=actor))
