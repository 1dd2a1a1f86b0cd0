"""The interfaces of what is asked before stored content is shown, and of what is told of it (B-05)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ce_engine.schema.audit import Action, AuditRecord
from ce_engine.schema.scope import Scope


Authorize = Callable[[str, Action, Scope], bool]
"""`authorize(actor, action, scope)`: whether the actor may do this. It is called wherever the caller is, and must
be fast. `True` alone is a yes: what it raises, and what has to be awaited, is a refusal. Of a list the scope's
session is `LISTED`, `"*"`; of a list of all users its user, too, and of a sweep all of it. `change` is of constraints and
budgets, whose owner is a scope's account, user and project."""


class AuditSink(Protocol):
    """Takes the records of accesses."""

    def write(self, record: AuditRecord) -> None:
        """Keep a record; called from any thread, before the caller has its answer.

        What it raises never reaches the caller: it is logged, without the record. It must not block: calls wait for it.
        """
        ...
