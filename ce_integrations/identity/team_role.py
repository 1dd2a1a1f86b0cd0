"""What a call is for in a team of agents: map-reduce's parts have a share of the context only (E-05)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import get_args

from ce_engine import CallerRole, ConfigError
from ce_engine.runtime.scoped_variable import ScopedVariable


SECTIONS = frozenset({"experience__context", "knowledge__context"})
"""What a part may ask for."""

chosen_role: ScopedVariable[tuple[CallerRole, frozenset[str]]] = ScopedVariable("ce_role", __name__)


@contextmanager
def ce_role(role: CallerRole, want: Collection[str] = ()) -> Iterator[None]:
    """Say what the model calls inside are for.

    Args:
        role: a map-reduce `worker` gets the rules alone, and no earlier messages; a `planner` or
            `reducer` the same; an `agent` (sequential, hierarchical, ReAct) all, which is the default.
        want: what it asks for beside that: `knowledge__context`; planners and reducers
            `experience__context`, too. What its role may not have is not given.

    Raises:
        ConfigError: there is no such role, or no such section.
    """
    sections = frozenset(want)
    if role not in get_args(CallerRole):
        raise ConfigError(f"role {role!r} is unknown; known: {', '.join(get_args(CallerRole))}")
    if not sections <= SECTIONS:
        raise ConfigError(
            f"unknown sections {sorted(sections - SECTIONS)}; a role may ask for {sorted(SECTIONS)}"
        )
    entered = chosen_role.open((role, sections))
    try:
        yield
    finally:
        chosen_role.close(entered)


def current_role(
    context: Context | None = None, asking_context: Context | None = None
) -> tuple[CallerRole, frozenset[str]]:
    """The role of a call that is made now, or in another context, and what it asks for."""
    return chosen_role.get(context, asking_context) or ("agent", frozenset())
