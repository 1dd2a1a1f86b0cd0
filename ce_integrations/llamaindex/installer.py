"""Installs context engineering on LlamaIndex objects: finds what asks models, marks it, and undoes that."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ce_engine import UnsupportedTargetError
from ce_integrations.base import Adapter, Capabilities, Detach, Hooks
from ce_integrations.marks import are_marked
from ce_integrations.messages import is_framework_s


if TYPE_CHECKING:
    from llama_index.core.base.llms.types import ChatMessage

TARGETS = {
    "llama_index.core.llms.llm": "LLM",
    "llama_index.core.settings": "_Settings",
    "llama_index.core.chat_engine.types": "BaseChatEngine",
    "llama_index.core.base.base_query_engine": "BaseQueryEngine",
    "llama_index.core.base.base_retriever": "BaseRetriever",
    "llama_index.core.response_synthesizers.base": "BaseSynthesizer",
    "llama_index.core.tools.types": "BaseTool",
    "workflows": "Workflow",
}
"""What is installed on, by module and class; none of them is imported for that."""


# ruff: noqa: PLC0415 - what imports the framework is imported when it is needed


CORE = "llama_index.core"
PLAIN = frozenset({"ChatMessage", "TextBlock"})


class LlamaIndexAdapter(Adapter[Any, "ChatMessage"]):
    """LlamaIndex. Nothing of it is imported before an installation."""

    name = "llamaindex"
    requires = ("llama-index-core>=0.12.50,<0.15",)
    targets = "an agent, workflow, chat engine, query engine, retriever, tool, LLM or Settings"
    capabilities = Capabilities(
        single_string_input=True,
        tool_errors=False,
        groups=True,
        helpers=True,
        retrieval=True,
        history=True,
    )
    mapper = "ce_integrations.llamaindex.mapper"

    def accepts(self, target: object) -> bool:
        """Whether it is one of `TARGETS`; who has one has imported what it is made of."""
        for module, name in TARGETS.items():
            kind = getattr(sys.modules.get(module), name, None)
            if isinstance(kind, type) and isinstance(target, kind):
                return True
        return False

    def converses(self, target: Any) -> bool:
        """Whether it is a workflow, an agent, a chat engine, or `Settings`, which all of them may have."""
        from ce_integrations.llamaindex.spans import kind_of

        return kind_of(target) in ("workflow", "chat engine", "settings")

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

    def attach(self, target: Any, hooks: Hooks[ChatMessage]) -> Detach:
        from ce_integrations.llamaindex.marking import attach, found
        from ce_integrations.llamaindex.recorder import SPANS
        from ce_integrations.llamaindex.spans import SpanMark

        if not (subjects := found(target)):
            raise UnsupportedTargetError(
                f"found no model in the {type(target).__name__}; expected one. Where the model is "
                "made at run time, install on it, or on Settings."
            )
        return attach(SpanMark(hooks), subjects, SPANS)

    def is_attached(self, target: Any) -> bool:
        """Whether everything in the target still has a mark, of this installation or another."""
        from ce_integrations.llamaindex.marking import found
        from ce_integrations.llamaindex.spans import PLACE

        return are_marked(found(target), PLACE)


ADAPTER = LlamaIndexAdapter()
install_ce = ADAPTER.install_ce
