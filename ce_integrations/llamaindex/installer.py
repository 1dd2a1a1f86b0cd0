"""Installs context engineering on LlamaIndex objects: finds what asks models, marks it, and undoes that."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ce_engine import UnsupportedTargetError
from ce_integrations.base import Adapter, Capabilities, Detach, Hooks, share
from ce_integrations.patches import ClassPatches, put
from ce_integrations.walk import walk


if TYPE_CHECKING:
    from llama_index.core.base.llms.types import ChatMessage

PACKAGES = ("llama_index", "workflows")

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

_patches = ClassPatches()


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
        if len(blocks) != 1 or not _is_plain(native.__class__) or not _is_plain(blocks[0].__class__):
            return None
        call_id = beside.get("tool_call_id")
        if len(beside) != (call_id is not None):
            return None
        return fields["role"], blocks[0].text, call_id

    def attach(self, target: Any, hooks: Hooks[ChatMessage]) -> Detach:
        from llama_index_instrumentation.dispatcher import Dispatcher

        from ce_integrations.llamaindex.injection import methods
        from ce_integrations.llamaindex.recorder import SPANS
        from ce_integrations.llamaindex.spans import KEY, ROOTS, Mark, kind_of, mark_of

        mark, found = Mark(hooks), list(_marked(target))
        if not found:
            raise UnsupportedTargetError(
                f"found no model in the {type(target).__name__}; expected one. Where the model is "
                "made at run time, install on it, or on Settings."
            )
        is_root = kind_of(type(target)) in ROOTS
        wrapped = [*methods(), *((Dispatcher, name, make) for name, make in SPANS.items())]
        with ExitStack() as undo:
            undo.callback(_patches.hold(wrapped, mark))
            for each in found:
                if (other := mark_of(each)) is not None:
                    share(each, other.hooks, hooks, agreed=not is_root)
                    continue
                undo.callback(put(vars(each), KEY, lambda _: mark, lambda v: None if v is mark else v))
            return undo.pop_all().close

    def is_attached(self, target: Any) -> bool:
        """Whether everything in the target still has a mark, of this installation or another."""
        from ce_integrations.llamaindex.spans import mark_of

        return all(mark_of(each) is not None for each in _marked(target))


def _marked(target: object) -> Iterator[Any]:
    """What of a target is marked: models, and what an app calls to have them called."""
    from ce_integrations.llamaindex.spans import ROOTS, kind_of

    for each in _walked(target):
        kind = kind_of(type(each))
        if kind == "model" or kind in ROOTS:
            yield each


def _walked(target: object) -> Iterator[object]:
    seen = dict[int, object]()
    for each in walk(target, PACKAGES):
        seen[id(each)] = each
        yield each
        for step in _steps(each):
            yield from (more for more in walk(step, PACKAGES) if id(more) not in seen)


def _steps(subject: Any) -> Iterable[object]:
    """The steps of a workflow, which stand in its class; they may close over a model."""
    workflows = sys.modules.get("workflows")
    if workflows is not None and isinstance(subject, workflows.Workflow):
        return list(subject._get_steps().values())  # noqa: SLF001 - all that tells them
    return ()


ADAPTER = LlamaIndexAdapter()
install_ce = ADAPTER.install_ce
