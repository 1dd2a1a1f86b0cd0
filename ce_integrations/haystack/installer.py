"""Installs context engineering on Haystack's objects: finds what asks models, and marks it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from ce_integrations.install.adapter import Capabilities, Hooks
from ce_integrations.install.class_adapter import ClassAdapter, SharedMark, loaded
from ce_integrations.wrapping.patches import Make, Place


if TYPE_CHECKING:
    from haystack.dataclasses import ChatMessage


# ruff: noqa: PLC0415 - what imports the framework is imported when it is needed


class HaystackAdapter(ClassAdapter["ChatMessage"]):
    """Haystack. Nothing of it is imported before an installation."""

    name = "haystack"
    requires = ("haystack-ai>=3.0,<4",)
    targets = "a Pipeline, an Agent, a SuperComponent or a chat generator"
    capabilities = Capabilities(
        ways=("sync", "async", "astream", "push", "apush"),
        helpers=True,
        retrieval=True,
        history=True,
    )
    mapper = "ce_integrations.haystack.mapper"

    kinds = (
        "haystack.core.pipeline.base.PipelineBase",
        "haystack.core.super_component.super_component._SuperComponent",
        "haystack.components.agents.agent.Agent",
    )
    wraps = ("context_injection", "component_methods", "recorder")

    def accepts(self, target: object) -> bool:
        """Whether it is one of `kinds`, or a component that is given messages and gives replies."""
        inputs, outputs = (
            getattr(target, f"__haystack_{way}__", ()) for way in ("input", "output")
        )
        return self.converses(target) or ("messages" in inputs and "replies" in outputs)

    def converses(self, target: object) -> bool:
        """Whether it is one of `kinds`, and no chat generator."""
        return isinstance(target, loaded(*self.kinds))

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

    def find_parts(self, target: Any) -> list[Any]:
        """Models, and what runs them."""
        from ce_integrations.haystack.component_kinds import find_parts

        return find_parts(target)

    def more(self, parts: list[Any]) -> Iterable[tuple[Place, str, Make]]:
        """The methods of components, which have no common base."""
        from ce_integrations.haystack.component_methods import definitions

        return definitions(parts)

    def make_mark(self, hooks: Hooks[ChatMessage]) -> SharedMark:
        """A mark that is told of components that are made later."""
        from ce_integrations.haystack.component_methods import installed

        installed.add(mark := super().make_mark(hooks))
        return mark

    def must_agree(self, target: Any) -> bool:
        """Whether it is a chat generator: what runs others says who governs the calls in it."""
        from ce_integrations.haystack.component_kinds import kind_of

        return kind_of(target) == "generator"


ADAPTER = HaystackAdapter()
install_ce = ADAPTER.install_ce
