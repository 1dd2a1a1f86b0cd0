"""Installs context engineering on AutoGen's objects: finds what runs in them, marks it, and undoes that."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ce_engine import UnsupportedTargetError
from ce_integrations.base import Adapter, Capabilities, Detach, Hooks
from ce_integrations.marks import mark_all
from ce_integrations.messages import is_framework_s
from ce_integrations.patches import ClassPatches, Make
from ce_integrations.walk import walk


if TYPE_CHECKING:
    from autogen_core.models import LLMMessage

PACKAGES = ("autogen_",)
MESSAGES = "autogen_core.models"
PLAIN = frozenset({"SystemMessage", "UserMessage", "AssistantMessage"})
SERVED = ("autogen_ext.agents.openai.", "autogen_ext.agents.azure.")
"""Agents whose conversation a provider keeps: no message of it passes here."""

_patches = ClassPatches()


# ruff: noqa: PLC0415 - what imports the framework is imported when it is needed


class AutoGenAdapter(Adapter[Any, "LLMMessage"]):
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

    def accepts(self, target: object) -> bool:
        """Whether it is one of those; who has one has imported what it is made of."""
        return isinstance(target, _targets())

    def converses(self, target: object) -> bool:
        """Whether it is no model client."""
        from autogen_core.models import ChatCompletionClient

        return not isinstance(target, ChatCompletionClient)

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

    def attach(self, target: Any, hooks: Hooks[LLMMessage]) -> Detach:
        from ce_integrations.autogen.marks import PLACE, Mark
        from ce_integrations.autogen.names import spoken

        found = _found(target)
        _check_governable(found)
        makers, mark = _makers(), Mark(hooks)
        mark.bases = frozenset(makers)
        hooks.agents.update(filter(None, map(spoken, found)))
        with ExitStack() as undo:
            undo.callback(_patches.hold_all(makers, mark))
            undo.callback(mark_all(found, lambda _: mark, PLACE, hooks, agreed=False))
            return undo.pop_all().close

    def is_attached(self, target: Any) -> bool:
        """Whether all that is marked, and what of AutoGen was loaded since is wrapped."""
        from ce_integrations.autogen.marks import PLACE, Mark

        marks = [PLACE.mark_of(each) for each in _found(target)]
        bases = frozenset(_makers())
        return all(isinstance(mark, Mark) and bases <= mark.bases for mark in marks)


def _targets() -> tuple[type, ...]:
    core, models = sys.modules.get("autogen_core"), sys.modules.get("autogen_core.models")
    chat = sys.modules.get("autogen_agentchat.base")
    kinds = [
        *(getattr(chat, name, None) for name in ("ChatAgent", "Team")),
        getattr(core, "AgentRuntime", None),
        getattr(models, "ChatCompletionClient", None),
    ]
    return tuple(kind for kind in kinds if isinstance(kind, type))


def _found(target: object) -> list[Any]:
    """What is marked: agents and teams; a client and a runtime only as the target, others may share them."""
    from ce_integrations.autogen.marks import chat_agents, teams

    kinds = (*chat_agents(), *teams())
    return [each for each in walk(target, PACKAGES) if each is target or isinstance(each, kinds)]


def _check_governable(found: list[Any]) -> None:
    for each in found:
        if any(cls.__module__.startswith(SERVED) for cls in type(each).__mro__):
            raise UnsupportedTargetError(
                f"the {type(each).__name__} {getattr(each, 'name', '')!r} keeps its conversation at "
                "the provider, where no message of it can be governed; expected agents that ask a "
                "ChatCompletionClient. Use an AssistantAgent with a model client in its place."
            )


def _makers() -> dict[type, dict[str, Make]]:
    """What is wrapped, of all classes that are loaded: clients and agents are made and exchanged later."""
    from ce_integrations.autogen import injection, members, recorder, routing

    return {**injection.MAKERS, **recorder.MAKERS, **routing.MAKERS, **members.entries()}


ADAPTER = AutoGenAdapter()
install_ce = ADAPTER.install_ce
