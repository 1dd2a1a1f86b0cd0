"""What the installed release of AutoGen has."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from autogen_agentchat.teams import RoundRobinGroupChat


def _parameters() -> set[str]:
    return set(inspect.signature(RoundRobinGroupChat.__init__).parameters)


NEEDS: dict[str, tuple[str, Callable[[], bool]]] = {
    "team_names": ("autogen-agentchat>=0.7", lambda: "name" in _parameters()),
}
"""What tests need, as in `@pytest.mark.needs("team_names")`: who has it, and how one sees that.

team_names: teams have names, and may stand in teams. Before: a team's participants are agents.
"""

HAS = {need: seen() for need, (_, seen) in NEEDS.items()}
