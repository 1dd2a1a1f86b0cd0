"""Installs on kernels, chat services, agents, chats and orchestrations, and takes everything away again."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ce_engine import UnsupportedTargetError
from ce_integrations.base import Adapter, Capabilities, Detach, Hooks
from ce_integrations.marks import Mark as BaseMark
from ce_integrations.marks import mark_all
from ce_integrations.messages import is_framework_s
from ce_integrations.patches import ClassPatches, Make
from ce_integrations.walk import walk


if TYPE_CHECKING:
    from semantic_kernel.contents import ChatMessageContent

PACKAGES = ("semantic_kernel",)
CONTENTS = "semantic_kernel.contents"
MESSAGES = frozenset({"ChatMessageContent", "StreamingChatMessageContent"})
TEXTS = frozenset({"TextContent", "StreamingTextContent"})
SERVED = tuple(
    f"semantic_kernel.agents.{each}."
    for each in ("azure_ai", "bedrock", "copilot_studio", "open_ai")
)
"""Agents whose conversation a provider keeps: no message of it passes here."""
SERVICE = "semantic_kernel.connectors.ai.chat_completion_client_base.ChatCompletionClientBase"
KERNEL, SEARCH = "semantic_kernel.kernel.Kernel", "semantic_kernel.data.vector.VectorSearch"
GROUPS = (
    "semantic_kernel.agents.agent.Agent",
    "semantic_kernel.agents.group_chat.agent_chat.AgentChat",
    "semantic_kernel.agents.orchestration.orchestration_base.OrchestrationBase",
)

_patches = ClassPatches()


# ruff: noqa: PLC0415 - what imports the framework is imported when it is needed


class SemanticKernelAdapter(Adapter[Any, "ChatMessageContent"]):
    """Semantic Kernel. Nothing is imported before an installation, and what wants protobuf never is."""

    name = "semantic_kernel"
    requires = ("semantic-kernel>=1.42,<2",)
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
        return isinstance(target, _loaded(KERNEL, SERVICE, *GROUPS))

    def converses(self, target: object) -> bool:
        """Whether it is more than a chat service."""
        return not isinstance(target, _loaded(SERVICE))

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
        from ce_integrations.semantic_kernel.injection import PLACE

        found = _found(target)
        makers, mark = _makers(), Mark(hooks)
        mark.bases = frozenset(makers)
        agents = _loaded(GROUPS[0])
        hooks.agents.update(str(each.name) for each in found if isinstance(each, agents))
        with ExitStack() as undo:
            undo.callback(_patches.hold_all(makers, mark))
            undo.callback(mark_all(found, lambda _: mark, PLACE, hooks, agreed=False))
            return undo.pop_all().close

    def is_attached(self, target: Any) -> bool:
        """Whether all that is marked, and what was loaded since is wrapped."""
        from ce_integrations.semantic_kernel.injection import PLACE

        marks = [PLACE.mark_of(each) for each in _found(target)]
        bases = frozenset(_makers())
        return all(isinstance(mark, Mark) and bases <= mark.bases for mark in marks)


class Mark(BaseMark):
    """Says whose a kernel, a service, an agent, a group or a collection is."""

    copies = "share"
    bases: frozenset[type] = frozenset()
    """The classes that were wrapped when it was put."""


def _loaded(*paths: str) -> Any:
    """Those of the framework's classes that the app has loaded."""
    named = (path.rpartition(".") for path in paths)
    found = (getattr(sys.modules.get(module), name, None) for module, _, name in named)
    return tuple(cls for cls in found if isinstance(cls, type))


def _found(target: Any) -> list[Any]:
    """What is marked: agents, groups and collections; services only of a kernel, others may share them."""
    found = [each for each in walk(target, PACKAGES) if isinstance(each, _loaded(SEARCH, *GROUPS))]
    for each in found:
        if type(each).__module__.startswith(SERVED):
            raise UnsupportedTargetError(
                f"the {type(each).__name__} keeps its conversation at the provider, where no message "
                "of it can be governed; expected agents that ask a chat service. Use a "
                "ChatCompletionAgent in its place."
            )
    services = target.services.values() if isinstance(target, _loaded(KERNEL)) else ()
    own = [target, *(each for each in services if isinstance(each, _loaded(SERVICE)))]
    return [*own, *(each for each in found if each is not target)]


def _makers() -> dict[type, Mapping[str, Make]]:
    """What is wrapped of classes that are loaded, and of those that are derived from them later."""
    from ce_integrations.semantic_kernel import injection, recorder

    makers = (*injection.MAKERS, *recorder.MAKERS)
    return {cls: by_name for path, by_name in makers for cls in _loaded(path)}


ADAPTER = SemanticKernelAdapter()
install_ce = ADAPTER.install_ce
