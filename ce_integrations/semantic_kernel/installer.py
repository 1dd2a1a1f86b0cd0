"""Installs on kernels, chat services, agents, chats and orchestrations, and takes everything away again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ce_integrations.install.adapter import Capabilities
from ce_integrations.install.class_adapter import ClassAdapter, loaded
from ce_integrations.mapping.messages import is_framework_s


if TYPE_CHECKING:
    from semantic_kernel.contents import ChatMessageContent

CONTENTS = "semantic_kernel.contents"
MESSAGES = frozenset({"ChatMessageContent", "StreamingChatMessageContent"})
TEXTS = frozenset({"TextContent", "StreamingTextContent"})
KERNEL, SEARCH = "semantic_kernel.kernel.Kernel", "semantic_kernel.data.vector.VectorSearch"
SERVICE = "semantic_kernel.connectors.ai.chat_completion_client_base.ChatCompletionClientBase"
AGENT = "semantic_kernel.agents.agent.Agent"
GROUPS = (
    AGENT,
    "semantic_kernel.agents.group_chat.agent_chat.AgentChat",
    "semantic_kernel.agents.orchestration.orchestration_base.OrchestrationBase",
)


class SemanticKernelAdapter(ClassAdapter["ChatMessageContent"]):
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

    kinds, alone = (KERNEL, SERVICE, *GROUPS), (SERVICE,)
    packages, inside = ("semantic_kernel",), (SEARCH, *GROUPS)
    served = tuple(
        f"semantic_kernel.agents.{package}."
        for package in ("azure_ai", "bedrock", "copilot_studio", "open_ai")
    )
    asking = "a ChatCompletionAgent"

    def alike(self, native: ChatMessageContent) -> Hashable | None:
        """Role, name and text of plain texts; `None` for calls, results, pictures and summaries."""
        items = native.items
        plain = len(items) == 1 and is_framework_s(type(items[0]), CONTENTS, TEXTS)
        if not plain or native.metadata or not is_framework_s(type(native), CONTENTS, MESSAGES):
            return None
        return native.role, native.name, native.content

    def parts(self, native: ChatMessageContent) -> tuple[object, ...]:
        """The items and what is in them, and the name."""
        values = (
            vars(item).get(key) for item in native.items for key in ("text", "arguments", "result")
        )
        inner = (value if isinstance(value, str) else id(value) for value in values)
        return (native.items, len(native.items), native.role, native.name, *inner)

    def find_parts(self, target: Any) -> list[Any]:
        """Agents, groups and collections; services only of a kernel, others may share them."""
        services = target.services.values() if isinstance(target, loaded(KERNEL)) else ()
        return [
            *super().find_parts(target),
            *(s for s in services if isinstance(s, loaded(SERVICE))),
        ]

    def speaker(self, subject: Any) -> str:
        """An agent's name."""
        return str(subject.name) if isinstance(subject, loaded(AGENT)) else ""


ADAPTER = SemanticKernelAdapter()
install_ce = ADAPTER.install_ce
