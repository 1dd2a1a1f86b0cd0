"""Installs context engineering on AutoGen's objects: finds what runs in them, and marks it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ce_integrations.autogen.speakers import CHAT_AGENT, TEAM, spoken
from ce_integrations.install.adapter import Capabilities
from ce_integrations.install.class_adapter import ClassAdapter
from ce_integrations.mapping.messages import is_framework_s


if TYPE_CHECKING:
    from autogen_core.models import LLMMessage

MESSAGES = "autogen_core.models"
PLAIN = frozenset({"SystemMessage", "UserMessage", "AssistantMessage"})
CLIENT = f"{MESSAGES}.ChatCompletionClient"


class AutoGenAdapter(ClassAdapter["LLMMessage"]):
    """AutoGen: agents, teams, model clients and core runtimes. Nothing is imported before an installation."""

    name = "autogen"
    requires = ("autogen-core>=0.6.2,<0.8",)  # before, tools are not told which call they answer
    targets = "an agent, a team, a model client or an agent runtime"
    capabilities = Capabilities(
        ways=("async", "astream"),
        groups=True,
        helpers=True,
        retrieval=True,
        history=True,
        threads=False,
        elsewhere=True,
    )
    mapper = "ce_integrations.autogen.mapper"
    has_fields = True

    kinds, alone = (CHAT_AGENT, TEAM, "autogen_core.AgentRuntime", CLIENT), (CLIENT,)
    # A client and a runtime only as the target: others may share them.
    packages, inside = ("autogen_",), (CHAT_AGENT, TEAM)
    served = ("autogen_ext.agents.openai.", "autogen_ext.agents.azure.")
    asking = "an AssistantAgent with a model client"
    wraps = ("context_injection", "recorder", "framework_prompts", "agents")

    def alike(self, native: LLMMessage) -> Hashable | None:
        """Kind, text and source of plain texts; `None` for calls, results and images."""
        kind, fields = native.__class__, native.__dict__
        content = fields["content"]
        if content.__class__ is not str or not is_framework_s(kind, MESSAGES, PLAIN):
            return None
        return kind, content, fields.get("source")

    def parts(self, native: LLMMessage) -> tuple[object, ...]:
        """Content and what it is made of, and the thought beside calls."""
        fields = native.__dict__
        content = fields["content"]
        inner = () if isinstance(content, str) else [getattr(c, "content", None) for c in content]
        return (content, len(content), fields.get("thought"), fields.get("source"), *inner)

    def speaker(self, subject: Any) -> str:
        """An agent's name."""
        return spoken(subject)


ADAPTER = AutoGenAdapter()
install_ce = ADAPTER.install_ce
