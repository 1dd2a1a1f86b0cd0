"""What owners set, asked for and told of like all that is stored (B-05, D-16)."""

from __future__ import annotations

from operator import attrgetter

from ce_engine.audit.access import BUDGET_DOORS, CONSTRAINT_DOORS, guarded
from ce_engine.sessions.owner.budgets import Budgets
from ce_engine.sessions.owner.constraints import Constraints


_engine = attrgetter("_parts")
"""Whose they are: asked each time, as an app may set another `authorize`."""


@guarded(CONSTRAINT_DOORS, "constraints.", engine=_engine)
class GuardedConstraints(Constraints):
    """The constraints of an engine, which is what they have for their parts."""


@guarded(BUDGET_DOORS, "budgets.", engine=_engine)
class GuardedBudgets(Budgets):
    """The budgets of an engine, which is what they have for their parts."""
