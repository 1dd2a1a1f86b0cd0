"""Installs context engineering on LangChain objects: finds what runs in them, and marks it."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any

from ce_engine import UnsupportedTargetError
from ce_integrations.install.adapter import Adapter, Capabilities, Detach, Hooks
from ce_integrations.install.marks import are_marked, mark_all
from ce_integrations.mapping.messages import is_framework_s
from ce_integrations.wrapping.patches import ClassPatches, definitions
from ce_integrations.wrapping.walk import walk


if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

PACKAGES = ("langchain", "langgraph")

_patches = ClassPatches()


# ruff: noqa: PLC0415 - what imports the framework is imported when it is needed

MESSAGES = "langchain_core.messages"
PLAIN = frozenset({"HumanMessage", "AIMessage", "SystemMessage", "ToolMessage"})


class LangChainAdapter(Adapter[Any, "BaseMessage"]):
    """LangChain and LangGraph. Nothing of them is imported before an installation."""

    name = "langchain"
    requires = ("langchain-core>=0.3.73,<2",)  # before, a hit in its cache looks like a call
    targets = "a model, chain, retriever, tool or graph (a Runnable)"
    capabilities = Capabilities(groups=True, helpers=True, retrieval=True, history=True)
    mapper = "ce_integrations.langchain.mapper"
    has_fields = True

    def accepts(self, target: object) -> bool:
        """Whether it is a Runnable or our middleware; who has one has imported what it is made of."""
        base = sys.modules.get("langchain_core.runnables.base")
        marks = sys.modules.get("ce_integrations.langchain.marks")
        return (base is not None and isinstance(target, base.Runnable)) or (
            marks is not None and isinstance(target, marks.Carrier)
        )

    def converses(self, target: Any) -> bool:
        """Whether it is a chain: no model, retriever or tool alone, and no graph, which keeps its own state."""
        from ce_integrations.langchain.marks import is_chain

        return is_chain(target)

    def parts(self, native: BaseMessage) -> tuple[object, ...]:
        """Content, blocks' texts (a block may be changed in place), calls, and what is set later."""
        fields = native.__dict__  # reading attributes that are not there is slow in pydantic
        content, calls = fields["content"], fields.get("tool_calls", ())
        blocks = () if isinstance(content, str) else content
        texts = [block.get("text") for block in blocks if isinstance(block, dict)]
        return (content, len(content), calls, len(calls), fields["id"], fields["name"], *texts)

    def alike(self, native: BaseMessage) -> Hashable | None:
        """Kind, text, id and name; `None` for what asks for tools, has blocks, or says more of itself."""
        kind, fields = native.__class__, native.__dict__
        content = fields["content"]
        if (
            content.__class__ is not str
            or fields["additional_kwargs"]
            or not is_framework_s(kind, MESSAGES, PLAIN)
        ):
            return None
        if "tool_call_id" in fields:
            more = fields["tool_call_id"], fields["status"], fields["name"]
            return kind, content, fields["id"], more
        # Whether a name is an agent's may be known later.
        if fields["name"] or fields.get("tool_calls") or fields.get("invalid_tool_calls"):
            return None
        return kind, content, fields["id"]

    def attach(self, target: Any, hooks: Hooks[BaseMessage]) -> Detach:
        from ce_integrations.langchain import batches
        from ce_integrations.langchain.context_injection import MAKERS
        from ce_integrations.langchain.graphs import graph_entries
        from ce_integrations.langchain.marks import Callbacks, carriers, copies, is_graph
        from ce_integrations.langchain.recorder import ENTRIES, Recorder

        mark, parts = Recorder(hooks), list(carriers(walk(target, PACKAGES)))
        if not parts:
            raise UnsupportedTargetError(
                f"found no model, tool, retriever or graph in the {type(target).__name__}; expected "
                "one. Where the model is made at run time, install on the graph that runs it, or on "
                "the model itself."
            )
        for graph in filter(is_graph, parts):
            hooks.agents.update(graph.nodes)
            mark.agents.update({graph.name} - {type(graph).name})
        agreed = not is_graph(parts[0])  # a graph says who governs its runs; leaves alone cannot
        makers = {**MAKERS, **ENTRIES, **graph_entries(), **copies()}
        with ExitStack() as undo:
            methods = chain(definitions(makers, parts), batches.entries())
            undo.callback(_patches.hold(methods, mark))
            undo.callback(mark_all(parts, lambda _: mark, Callbacks(), hooks, agreed=agreed))
            return undo.pop_all().close

    def is_attached(self, target: Any) -> bool:
        """Whether everything in the target still has a mark, of this installation or another."""
        from ce_integrations.langchain.marks import Callbacks, carriers

        return are_marked(carriers(walk(target, PACKAGES)), Callbacks())


ADAPTER = LangChainAdapter()
install_ce = ADAPTER.install_ce
