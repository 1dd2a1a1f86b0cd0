"""Installs context engineering on CrewAI objects: marks what asks models."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from ce_integrations.install.adapter import Capabilities
from ce_integrations.install.class_adapter import ClassAdapter


CREW, MODEL = "crewai.crew.Crew", "crewai.llms.base_llm.BaseLLM"

_PLAIN = {"role", "content", "name", "tool_call_id", "cache_breakpoint"}


class CrewAIAdapter(ClassAdapter[Mapping[str, Any]]):
    """CrewAI. Nothing of it is imported before an installation."""

    name = "crewai"
    requires = ("crewai>=1.14.4,<2",)  # before, it refuses the pydantic that we need
    targets = "a Crew, Agent, LiteAgent, Flow or LLM"
    capabilities = Capabilities(
        ways=("sync", "async"),
        tool_errors=False,
        helpers=True,
        retrieval=True,
        history=True,
        cancels=False,
    )
    mapper = "ce_integrations.crewai.mapper"

    kinds = (
        CREW,
        MODEL,
        "crewai.agent.core.Agent",
        "crewai.lite_agent.LiteAgent",
        "crewai.flow.flow.Flow",
    )
    alone = (CREW, MODEL)  # a crew works on tasks
    wraps, imports = ("context_injection", "recorder", "session"), True

    def alike(self, native: Mapping[str, Any]) -> Hashable | None:
        """Role, text and the answered call; `None` for what has other content or says more of itself."""
        content = native.get("content")
        if type(native) is not dict or type(content) is not str or not native.keys() <= _PLAIN:
            return None
        return native.get("role"), content, native.get("name"), native.get("tool_call_id")

    def parts(self, native: Mapping[str, Any]) -> tuple[object, ...]:
        """All that it holds, and the lengths of lists: apps and the framework edit them in place."""
        return tuple(
            (key, value, len(value) if isinstance(value, list | dict) else 0)
            for key, value in native.items()
        )

    def find_parts(self, target: Any) -> list[Any]:
        """The target, and of a crew its agents. Models may be shared with others."""
        agents = [*getattr(target, "agents", ()), getattr(target, "manager_agent", None)]
        return [target, *(agent for agent in agents if agent is not None)]

    def must_agree(self, target: Any) -> bool:  # noqa: ARG002 - whatever it is
        """Whether those who install on one crew and on an agent of it must say the same."""
        return True


ADAPTER = CrewAIAdapter()
install_ce = ADAPTER.install_ce
