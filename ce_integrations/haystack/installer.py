"""Installs context engineering on Haystack's objects: finds what asks models, marks it, and undoes that."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ce_integrations.base import Adapter, Capabilities, Detach, Hooks
from ce_integrations.marks import are_marked


if TYPE_CHECKING:
    from haystack.dataclasses import ChatMessage

TARGETS = {
    "haystack.core.pipeline.base": "PipelineBase",
    "haystack.core.super_component.super_component": "_SuperComponent",
    "haystack.components.agents.agent": "Agent",
}
"""What is installed on beside chat generators, by module and class; none of them is imported for that."""


# ruff: noqa: PLC0415 - what imports the framework is imported when it is needed


class HaystackAdapter(Adapter[Any, "ChatMessage"]):
    """Haystack. Nothing of it is imported before an installation."""

    name = "haystack"
    requires = ("haystack-ai>=3.0,<4",)
    targets = "a Pipeline, an Agent, a SuperComponent or a chat generator"
    capabilities = Capabilities(
        several_system_messages=True,
        ways=("sync", "async", "astream", "push", "apush"),
        helpers=True,
        retrieval=True,
        history=True,
    )
    mapper = "ce_integrations.haystack.mapper"

    def accepts(self, target: object) -> bool:
        """Whether it is one of `TARGETS`, or a component that is given messages and gives replies."""
        given, gives = (getattr(target, f"__haystack_{way}__", ()) for way in ("input", "output"))
        return self.converses(target) or ("messages" in given and "replies" in gives)

    def converses(self, target: object) -> bool:
        """Whether it is one of `TARGETS`, and no chat generator."""
        kinds = (getattr(sys.modules.get(module), name, None) for module, name in TARGETS.items())
        return any(isinstance(kind, type) and isinstance(target, kind) for kind in kinds)

    def parts(self, native: ChatMessage) -> tuple[object, ...]:
        """The parts of a message, what stands in them, and what its metadata says of its kind."""
        fields = native.__dict__
        content = fields["_content"]
        inner = [value for part in content for value in part.__dict__.values()]
        return (
            fields["_role"],
            fields["_name"],
            len(fields["_meta"]),
            len(content),
            *content,
            *inner,
        )

    def alike(self, native: ChatMessage) -> Hashable | None:
        """Role, name and text; `None` for what has other parts, or a word of its compaction.

        A pipeline copies its messages for each component, so that objects tell nothing.
        """
        fields = native.__dict__
        content = fields["_content"]
        if (
            len(content) != 1
            or len(content[0].__dict__) != 1
            or "context_compaction" in fields["_meta"]
        ):
            return None
        return fields["_role"], fields["_name"], content[0].__dict__.get("text")

    def attach(self, target: Any, hooks: Hooks[ChatMessage]) -> Detach:
        from ce_integrations.haystack.marking import attach

        return attach(target, hooks)

    def is_attached(self, target: Any) -> bool:
        """Whether everything in the target still has a mark, of this installation or another."""
        from ce_integrations.haystack.roles import PLACE, found

        return are_marked(found(target), PLACE)


ADAPTER = HaystackAdapter()
install_ce = ADAPTER.install_ce
