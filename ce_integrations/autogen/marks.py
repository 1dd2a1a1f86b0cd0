"""The mark of an installation on AutoGen's objects, and which classes of AutoGen are loaded."""

from __future__ import annotations

import sys
from typing import Any

from ce_integrations.base import Hooks
from ce_integrations.marks import Attribute
from ce_integrations.marks import Mark as BaseMark


class Mark(BaseMark):
    """Says whose an agent, a team, a client or a runtime is."""

    copies = "share"

    def __init__(self, hooks: Hooks[Any]) -> None:
        super().__init__(hooks)
        self.bases: frozenset[type] = frozenset()
        """Those that were there when it was put, whose classes are wrapped, also those that come later."""


PLACE = Attribute("_ce_mark")
"""Where an object has its mark; neither states nor dumped components look there."""


def loaded(module: str, *names: str) -> tuple[type, ...]:
    """Classes of a module of AutoGen that the app may do without; none where it is not imported."""
    found = sys.modules.get(module)
    return tuple(cls for name in names if isinstance(cls := getattr(found, name, None), type))


def chat_agents() -> tuple[type, ...]:
    """The class of agents, where agentchat is imported."""
    return loaded("autogen_agentchat.base", "ChatAgent")


def teams() -> tuple[type, ...]:
    """The class of teams."""
    return loaded("autogen_agentchat.base", "Team")
