"""Installs context engineering on LlamaIndex objects: finds what asks models, and marks it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ce_engine import UnsupportedTargetError
from ce_integrations.install.adapter import Capabilities, Detach, Hooks
from ce_integrations.install.class_adapter import ClassAdapter
from ce_integrations.mapping.messages import is_framework_s


if TYPE_CHECKING:
    from llama_index.core.base.llms.types import ChatMessage

CORE = "llama_index.core"
PLAIN = frozenset({"ChatMessage", "TextBlock"})
ALONE = (
    f"{CORE}.llms.llm.LLM",
    f"{CORE}.base.base_query_engine.BaseQueryEngine",
    f"{CORE}.base.base_retriever.BaseRetriever",
    f"{CORE}.response_synthesizers.base.BaseSynthesizer",
    f"{CORE}.tools.types.BaseTool",
)


# ruff: noqa: PLC0415 - what imports the framework is imported when it is needed


class LlamaIndexAdapter(ClassAdapter["ChatMessage"]):
    """LlamaIndex. Nothing of it is imported before an installation."""

    name = "llamaindex"
    requires = ("llama-index-core>=0.12.50,<0.15",)
    targets = "an agent, workflow, chat engine, query engine, retriever, tool, LLM or Settings"
    capabilities = Capabilities(
        tool_errors=False,
        groups=True,
        helpers=True,
        retrieval=True,
        history=True,
    )
    mapper = "ce_integrations.llamaindex.mapper"

    kinds = (
        *ALONE,
        f"{CORE}.settings._Settings",
        f"{CORE}.chat_engine.types.BaseChatEngine",
        "workflows.Workflow",
    )
    alone = ALONE
    wraps = ("context_injection", "marked_parts", "recorder")

    def parts(self, native: ChatMessage) -> tuple[object, ...]:
        """Blocks, their texts (some are changed in place), and what an integration keeps of calls."""
        blocks, beside = native.blocks, native.additional_kwargs
        calls = beside.get("tool_calls")
        texts = [getattr(block, "text", None) for block in blocks]
        return (native.role, blocks, len(blocks), beside, calls, len(calls or ()), *texts)

    def alike(self, native: ChatMessage) -> Hashable | None:
        """Role, text and the answered call; `None` for what has other blocks or says more of itself."""
        fields = native.__dict__
        blocks, beside = fields["blocks"], fields["additional_kwargs"]
        if (
            len(blocks) != 1
            or not is_framework_s(native.__class__, CORE, PLAIN)
            or not is_framework_s(blocks[0].__class__, CORE, PLAIN)
        ):
            return None
        call_id = beside.get("tool_call_id")
        if len(beside) != (call_id is not None):
            return None
        return fields["role"], blocks[0].text, call_id

    def find_parts(self, target: Any) -> list[Any]:
        """Models, and what an app calls to have them called."""
        from ce_integrations.llamaindex.marked_parts import find_parts

        return find_parts(target)

    def must_agree(self, target: Any) -> bool:
        """Whether it is a model: what is called says who governs the calls in it."""
        from ce_integrations.llamaindex.spans import ROOTS, kind_of

        return kind_of(target) not in ROOTS

    def attach(self, target: Any, hooks: Hooks[ChatMessage]) -> Detach:
        if not self.find_parts(target):
            raise UnsupportedTargetError(
                f"found no model in the {type(target).__name__}; expected one. Where the model is "
                "made at run time, install on it, or on Settings."
            )
        return super().attach(target, hooks)


ADAPTER = LlamaIndexAdapter()
install_ce = ADAPTER.install_ce
