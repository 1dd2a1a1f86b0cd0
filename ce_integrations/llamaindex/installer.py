"""Installs context engineering on LlamaIndex objects: finds what asks models, marks it, and undoes that."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ce_engine import UnsupportedTargetError
from ce_integrations.base import Adapter, Capabilities, Detach, Hooks, share


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


@lru_cache(256)
def _is_plain(kind: type) -> bool:
    """Whether a class is the framework's own message or text, and nobody's of the same name."""
    names = ("ChatMessage", "TextBlock")
    return kind.__module__.startswith("llama_index.core.") and kind.__name__ in names


class LlamaIndexAdapter(Adapter[Any, "ChatMessage"]):
    """LlamaIndex. Nothing of it is imported before an installation."""

    name = "llamaindex"
    requires = ("llama-index-core>=0.12.50,<0.15",)
    targets = "an agent, workflow, chat engine, query engine, retriever, tool, LLM or Settings"
    capabilities = Capabilities(single_string_input=True)
    mapper = "ce_integrations.llamaindex.mapper"

    def accepts(self, target: object) -> bool:
        """Whether it is one of `TARGETS`; who has one has imported what it is made of."""
        for module, name in TARGETS.items():
            kind = getattr(sys.modules.get(module), name, None)
            if isinstance(kind, type) and isinstance(target, kind):
                return True
        return False

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
            or not _is_plain(native.__class__)
            or not _is_plain(blocks[0].__class__)
        ):
            return None
        call_id = beside.get("tool_call_id")
        if len(beside) != (call_id is not None):
            return None
        return fields["role"], blocks[0].text, call_id

    def attach(self, target: Any, hooks: Hooks[ChatMessage]) -> Detach:
        from ce_integrations.llamaindex.marking import WATCHED, found, hold
        from ce_integrations.llamaindex.recorder import SPANS
        from ce_integrations.llamaindex.spans import ROOTS, Mark, kind_of, mark_of

        mark, subjects = Mark(hooks), list(found(target))
        if not subjects:
            raise UnsupportedTargetError(
                f"found no model in the {type(target).__name__}; expected one. Where the model is "
                "made at run time, install on it, or on Settings."
            )
        is_root = kind_of(target) in ROOTS
        with mark.undo:
            hold(mark, {**SPANS, **WATCHED})
            for each in subjects:
                if (other := mark_of(each)) is None:
                    mark.put_on(each)
                else:
                    share(each, other.hooks, hooks, agreed=not is_root)
            mark.undo = mark.undo.pop_all()
        return mark.undo.close

    def is_attached(self, target: Any) -> bool:
        """Whether everything in the target still has a mark, of this installation or another."""
        from ce_integrations.llamaindex.marking import found
        from ce_integrations.llamaindex.spans import mark_of

        return all(mark_of(each) is not None for each in found(target))


ADAPTER = LlamaIndexAdapter()
install_ce = ADAPTER.install_ce
