"""Installs context engineering on CrewAI objects: marks what asks models, and undoes that."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from contextlib import ExitStack
from typing import Any

from ce_integrations.base import Adapter, Capabilities, Detach, Hooks
from ce_integrations.marks import are_marked, mark_all
from ce_integrations.patches import ClassPatches


# ruff: noqa: PLC0415 - what imports the framework is imported when it is needed

TARGETS = {
    "crewai.crew": "Crew",
    "crewai.agent.core": "Agent",
    "crewai.lite_agent": "LiteAgent",
    "crewai.flow.flow": "Flow",
    "crewai.llms.base_llm": "BaseLLM",
}
"""What is installed on, by module and class; none of them is imported for that."""

_PLAIN = {"role", "content", "name", "tool_call_id", "cache_breakpoint"}

_patches = ClassPatches()


class CrewAIAdapter(Adapter[Any, Mapping[str, Any]]):
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

    def accepts(self, target: object) -> bool:
        """Whether it is one of `TARGETS`; who has one has imported what it is made of."""
        kinds = (getattr(sys.modules.get(module), name, None) for module, name in TARGETS.items())
        return isinstance(target, tuple(kind for kind in kinds if isinstance(kind, type)))

    def converses(self, target: Any) -> bool:
        """Whether it may be spoken with: a model alone is not, and a crew works on tasks."""
        from crewai import Flow

        from ce_integrations.crewai.scope import AGENTS

        return isinstance(target, (Flow, *AGENTS))

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

    def attach(self, target: Any, hooks: Hooks[Mapping[str, Any]]) -> Detach:
        from ce_integrations.crewai import injection, recorder, scope

        hooks.attached = mark = scope.CrewMark(hooks)
        found = self._found(target)
        with ExitStack() as undo:
            for makers in (injection.MAKERS, recorder.MAKERS, scope.MAKERS):
                undo.callback(_patches.hold_all(makers, mark))
            undo.callback(_patches.hold(injection.asides(), mark))
            undo.callback(mark_all(found, lambda _: mark, scope.PLACE, hooks, agreed=True))
            return undo.pop_all().close

    def is_attached(self, target: Any) -> bool:
        """Whether everything in the target still has a mark, of this installation or another."""
        from ce_integrations.crewai.scope import PLACE

        return are_marked(self._found(target), PLACE)

    def _found(self, target: Any) -> list[Any]:
        """What is marked: the target, and of a crew its agents. Models may be shared with others."""
        agents = [*getattr(target, "agents", ()), getattr(target, "manager_agent", None)]
        return [target, *(each for each in agents if each is not None)]


ADAPTER = CrewAIAdapter()
install_ce = ADAPTER.install_ce
