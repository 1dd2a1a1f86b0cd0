"""The names under which agents speak: what they say is no person's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ce_integrations.install.class_adapter import loaded


CHAT_AGENT, TEAM = "autogen_agentchat.base.ChatAgent", "autogen_agentchat.base.Team"


def spoken(agent: Any) -> str:
    """The name under which an agent speaks; a proxy speaks for a person."""
    proxies = loaded("autogen_agentchat.agents.UserProxyAgent")
    if not isinstance(agent, loaded(CHAT_AGENT)) or isinstance(agent, proxies):
        return ""
    return str(getattr(agent, "name", ""))


def speakers(team: Any) -> Iterator[str]:
    """Those who speak in a team and in the teams inside, its manager among them; none in an agent."""
    members = getattr(team, "_participants", ())
    names = [spoken(member) for member in members]
    if members:
        names.append(getattr(team, "_group_chat_manager_name", ""))
    yield from filter(None, names)
    for member in members:
        yield from speakers(member)
