"""Hears the spans of LlamaIndex as they begin and end: whose calls are inside, what tools and retrievers did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import BaseTool, ToolOutput
from llama_index_instrumentation.dispatcher import Dispatcher

from ce_engine import RetrievedDoc
from ce_integrations.calls.tool_events import at_tool, retrieved_doc
from ce_integrations.install.class_adapter import Entry, SharedMark
from ce_integrations.llamaindex.mapper import media_of
from ce_integrations.llamaindex.marked_parts import owner_of
from ce_integrations.llamaindex.spans import (
    UNKNOWN,
    Span,
    task_here,
    tree,
    user_in_tags,
    what_a_span_tells,
)
from ce_integrations.mapping.content_blocks import media_digests
from ce_integrations.wrapping.function_kinds import same_kind, within
from ce_integrations.wrapping.guard import Guard


UUID_LENGTH = 37
"""Of the end of a span's id: `FunctionAgent.run-<uuid>`."""

_unowned = Guard()
"""For spans that are nobody's: a fault of ours is logged there, and in no installation's list."""


def _entering(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    def span_enter(
        self: Dispatcher,
        /,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        parent_id: str | None = None,
        **kwargs: Any,
    ) -> Any:
        around = tree.inside(parent_id)
        owner = tree.of(around)[1] if around else None
        owner = owner or owner_of(instance)
        guard = _unowned if owner is None else owner.hooks.guard
        with guard("span"):
            _entered(owner, id_, bound_args.arguments, instance, around)
        return original(
            self, id_=id_, bound_args=bound_args, instance=instance, parent_id=parent_id, **kwargs
        )

    return span_enter


def _entered(
    owner: SharedMark | None, id_: str, args: Mapping[str, Any], instance: Any, parent: str | None
) -> None:
    """A span begins; of tools and retrievers inside one another the owner's outermost is recorded.

    Of a span that is nobody's only that is noted which the calls of a model inside are to know:
    the model may be somebody's.
    """
    method, around = id_[:-UUID_LENGTH].rpartition(".")[2], tree.span(parent)
    place, fields = what_a_span_tells(method, args, instance, around)
    if owner is None and not fields and around is UNKNOWN:
        return
    event: Any = args.get("ev")
    asked_for = event if method == "call_tool" and hasattr(event, "tool_id") else None
    work, name = _work(instance, asked_for)
    begins, is_part = place == "workflow", work == around.work
    span = Span(
        place,
        work="" if begins else work or around.work,
        run=id_ if begins else around.run,
        before=parent if begins else around.before,
        agent=str(getattr(event, "current_agent_name", "") or around.agent),
        caller=task_here() if begins else None,
    )
    tool = name if work == "tool" and not is_part else ""
    tree.add(id_, parent, owner, tool, user_in_tags(), **fields)
    tree.begin(id_, span)
    is_part = is_part and parent is not None and tree.of(parent)[1] is owner
    if owner is not None and work and not is_part:
        arguments, call_id = (
            _arguments(instance, args, asked_for),
            getattr(asked_for, "tool_id", None),
        )
        owner.runs.begin(id_, name, arguments, tree.info_in(parent or id_), call_id)


def _work(instance: object, asked_for: Any) -> tuple[str, str]:
    """What works in a span, and its name: a tool (a model may have `asked_for` it) or a retriever."""
    if asked_for is not None:
        return "tool", asked_for.tool_name
    if isinstance(instance, BaseTool):
        return "tool", instance.metadata.get_name()
    return (
        ("retriever", type(instance).__name__) if isinstance(instance, BaseRetriever) else ("", "")
    )


def _arguments(instance: object, args: Mapping[str, Any], asked_for: Any) -> Any:
    """A retriever's query, or a tool's arguments by the names that its schema has for them."""
    if asked_for is not None:
        return asked_for.tool_kwargs
    if not isinstance(instance, BaseTool):
        query = next(iter(args.values()), "")
        return str(getattr(query, "query_str", query))
    names = instance.metadata.get_parameters_dict().get("properties", {})
    return {
        **dict(zip(names, args.get("args", ()), strict=False)),
        **{name: value for name, value in args.items() if name not in ("args", "kwargs")},
        **args.get("kwargs", {}),
    }


def _ending(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    def span_exit(
        self: Dispatcher,
        /,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        result: Any = None,
        **kwargs: Any,
    ) -> Any:
        tree.end(id_)
        if (owner := tree.of(id_)[1]) is not None:
            with owner.hooks.guard("span"):
                _ended(owner, id_, result)
        return original(
            self, id_=id_, bound_args=bound_args, instance=instance, result=result, **kwargs
        )

    return span_exit


def _ended(owner: SharedMark, id_: str, result: Any) -> None:
    output = getattr(result, "tool_output", result)
    if isinstance(output, ToolOutput):
        error = getattr(output, "exception", None)
        if output.is_error and error is not None:
            owner.runs.tool_failed(id_, error)
        else:
            media = media_digests(media_of(output.blocks))
            owner.runs.tool_ended(id_, output.content, failed=output.is_error, media=media)
    elif isinstance(result, list) and all(isinstance(hit, NodeWithScore) for hit in result):
        owner.runs.retrieved(id_, [_document(hit) for hit in result])
    else:
        owner.runs.forget(id_)


def _document(hit: NodeWithScore) -> RetrievedDoc:
    node = hit.node
    beside = {"hash": getattr(node, "hash", None), "ref_doc_id": getattr(node, "ref_doc_id", None)}
    metadata = {**{key: value for key, value in beside.items() if value}, **node.metadata}
    return retrieved_doc(node.get_content(), metadata, node.node_id, hit.score)


def _dropping(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    def span_drop(
        self: Dispatcher,
        /,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> Any:
        tree.end(id_)
        if (owner := tree.of(id_)[1]) is not None:
            with owner.hooks.guard("span"):
                # The step pauses for somebody's word, and runs the tool again later.
                waits = type(err).__name__ == "WaitingForEvent"
                if err is None or waits or tree.span(id_).work != "tool":
                    owner.runs.forget(id_)
                else:
                    owner.runs.tool_failed(id_, err)
        return original(self, id_=id_, bound_args=bound_args, instance=instance, err=err, **kwargs)

    return span_drop


MAKERS: tuple[Entry, ...] = (
    (Dispatcher, _entering, "span_enter"),
    (Dispatcher, _ending, "span_exit"),
    (Dispatcher, _dropping, "span_drop"),
    (BaseTool, within(at_tool), "__call__ call acall"),
)
"""Methods of a dispatcher: its handlers' own exceptions are swallowed, and its lists are the app's. And of tools."""
