"""Installs on kernels, chat services, agents, chats and orchestrations, and takes everything away again."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ce_engine import UnsupportedTargetError
from ce_integrations.base import Adapter, Capabilities, Detach, Hooks
from ce_integrations.marks import mark_all
from ce_integrations.messages import is_framework_s
from ce_integrations.patches import ClassPatches, Make, all_definitions
from ce_integrations.walk import walk


if TYPE_CHECKING:
    from semantic_kernel.contents import ChatMessageContent

PACKAGES = ("semantic_kernel",)
CONTENTS = "semantic_kernel.contents"
MESSAGES = frozenset({"ChatMessageContent", "StreamingChatMessageContent"})
TEXTS = frozenset({"TextContent", "StreamingTextContent"})
SERVED = tuple(f"semantic_kernel.agents.{each}." for each in ("azure_ai", "bedrock", "open_ai"))
SERVED = (*SERVED, "semantic_kernel.agents.copilot_studio.")
"""Agents whose conversation a provider keeps: no message of it passes here."""
TARGETS = {
    "semantic_kernel.kernel": "Kernel",
    "semantic_kernel.connectors.ai.chat_completion_client_base": "ChatCompletionClientBase",
    "semantic_kernel.agents.agent": "Agent",
    "semantic_kernel.agents.group_chat.agent_chat": "AgentChat",
    "semantic_kernel.agents.orchestration.orchestration_base": "OrchestrationBase",
}

_patches = ClassPatches()


# ruff: noqa: PLC0415 - what imports the framework is imported when it is needed


class SemanticKernelAdapter(Adapter[Any, "ChatMessageContent"]):
    """Semantic Kernel. Nothing is imported before an installation, and what wants protobuf never is."""

    name = "semantic_kernel"
    requires = ("semantic-kernel>=1.45,<2",)
    targets = "a Kernel, a chat service, an agent, an AgentGroupChat or an orchestration"
    capabilities = Capabilities(
        ways=("async", "astream"),
        tool_errors=False,
        groups=True,
        helpers=True,
        retrieval=True,
        history=True,
        elsewhere=True,
    )
    mapper = "ce_integrations.semantic_kernel.mapper"

    def accepts(self, target: object) -> bool:
        """Whether it is one of those; who has one has imported what it is made of."""
        kinds = (getattr(sys.modules.get(each), name, None) for each, name in TARGETS.items())
        return isinstance(target, tuple(kind for kind in kinds if isinstance(kind, type)))

    def converses(self, target: object) -> bool:
        """Whether it is more than a chat service."""
        from semantic_kernel.connectors.ai.chat_completion_client_base import (
            ChatCompletionClientBase,
        )

        return not isinstance(target, ChatCompletionClientBase)

    def alike(self, native: ChatMessageContent) -> Hashable | None:
        """Role, name and text of plain texts; `None` for calls, results, pictures and summaries."""
        items = native.items
        plain = len(items) == 1 and is_framework_s(type(items[0]), CONTENTS, TEXTS)
        if not plain or native.metadata or not is_framework_s(type(native), CONTENTS, MESSAGES):
            return None
        return native.role, native.name, native.content

    def parts(self, native: ChatMessageContent) -> tuple[object, ...]:
        """The items and what is in them, and the name."""
        held = (
            vars(item).get(key) for item in native.items for key in ("text", "arguments", "result")
        )
        inner = (value if isinstance(value, str) else id(value) for value in held)
        return (native.items, len(native.items), native.role, native.name, *inner)

    def attach(self, target: Any, hooks: Hooks[ChatMessageContent]) -> Detach:
        """Wrap the methods of all classes that are loaded, and mark whose the objects are."""
        from ce_integrations.semantic_kernel.members import PLACE, Mark

        found = _found(target)
        wanted = list(all_definitions(_makers()))
        mark = Mark(hooks)
        mark.wrapped = frozenset((cls, name) for cls, name, _ in wanted)
        hooks.agents.update(str(each.name) for each in found if hasattr(each, "instructions"))
        with ExitStack() as undo:
            undo.callback(_patches.hold(wanted, mark))
            undo.callback(mark_all(found, lambda _: mark, PLACE, hooks, agreed=False))
            return undo.pop_all().close

    def is_attached(self, target: Any) -> bool:
        """Whether all that is marked, and classes that were loaded since are wrapped."""
        from ce_integrations.semantic_kernel.members import PLACE, Mark

        marks = [PLACE.mark_of(each) for each in _found(target)]
        wanted = {(cls, name) for cls, name, _ in all_definitions(_makers())}
        return all(isinstance(mark, Mark) and wanted <= mark.wrapped for mark in marks)


def _found(target: Any) -> list[Any]:
    """What is marked: agents, groups and collections; a kernel and services only of the target's own."""
    from semantic_kernel.agents.agent import Agent
    from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
    from semantic_kernel.data.vector import VectorSearch
    from semantic_kernel.kernel import Kernel

    from ce_integrations.semantic_kernel.members import groups

    own = [target]
    if isinstance(target, Kernel):
        services = target.services.values()
        own += [each for each in services if isinstance(each, ChatCompletionClientBase)]
    kinds = (Agent, VectorSearch, *groups())
    found = [each for each in walk(target, PACKAGES) if isinstance(each, kinds)]
    for each in found:
        if isinstance(each, Agent) and type(each).__module__.startswith(SERVED):
            raise UnsupportedTargetError(
                f"the {type(each).__name__} {each.name!r} keeps its conversation at the provider, "
                "where no message of it can be governed; expected agents that ask a chat service. "
                "Use a ChatCompletionAgent in its place."
            )
    return [*own, *(each for each in found if each is not target)]


def _makers() -> dict[type, dict[str, Make]]:
    """What is wrapped, of all classes that are loaded: services and agents are made later, too."""
    from ce_integrations.semantic_kernel import injection, members, recorder

    found: dict[type, dict[str, Make]] = {}
    for makers in (members.entries(), injection.MAKERS, recorder.MAKERS):
        for cls, by_name in makers.items():
            found[cls] = {**found.get(cls, {}), **by_name}
    return found


ADAPTER = SemanticKernelAdapter()
install_ce = ADAPTER.install_ce
