"""Hears the spans of LlamaIndex as they begin and end: whose calls are inside, what tools and retrievers did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import BaseTool, ToolOutput
from llama_index_instrumentation.dispatcher import Dispatcher

from ce_engine import RetrievedDoc
from ce_integrations.blocks import media_digests
from ce_integrations.llamaindex.mapper import media_of
from ce_integrations.llamaindex.marking import owner_of
from ce_integrations.llamaindex.spans import Span, SpanMark, tree, what_a_span_tells
from ce_integrations.patches import Make
from ce_integrations.runs import retrieved_doc
from ce_integrations.wrappers import same_kind


UUID_LENGTH = 37
"""Of the end of a span's id: `FunctionAgent.run-<uuid>`."""


def _entering(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    def span_enter(
        self: Dispatcher,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        parent_id: str | None = None,
        **kwargs: Any,
    ) -> Any:
        around = tree.inside(parent_id)
        owner = tree.of(around)[1] if around else None
        owner = owner or owner_of(instance)
        if owner is not None:
            with owner.hooks.guard("span"):
                _entered(owner, id_, bound_args.arguments, instance, around)
        return original(
            self, id_=id_, bound_args=bound_args, instance=instance, parent_id=parent_id, **kwargs
        )

    return span_enter


def _entered(
    owner: SpanMark, id_: str, args: Mapping[str, Any], instance: Any, parent: str | None
) -> None:
    """A span of somebody's begins; of tools and retrievers inside one another the outermost counts."""
    method, around = id_[:-UUID_LENGTH].rpartition(".")[2], tree.span(parent)
    place, told = what_a_span_tells(method, args, instance, around)
    work, name, given, call_id = "", "", None, None
    event: Any = args.get("ev")
    if hasattr(event, "tool_id") and method == "call_tool":
        work, name, given, call_id = "tool", event.tool_name, event.tool_kwargs, event.tool_id
    elif around.recorded != "tool" and isinstance(instance, BaseTool):
        work, name, given = "tool", instance.metadata.get_name(), _given(instance, args)
    elif around.recorded != "retriever" and isinstance(instance, BaseRetriever):
        work, name, given = "retriever", type(instance).__name__, _query(args)
    begins = place == "workflow"
    span = Span(
        place,
        recorded="" if begins else work or around.recorded,
        run=id_ if begins else around.run,
        before=parent if begins else around.before,
        agent=str(getattr(event, "current_agent_name", "") or around.agent),
    )
    tree.add(id_, parent, owner, name if work == "tool" else "", **told)
    tree.begin(id_, span)
    if work:
        owner.runs.begin(id_, name, given, tree.info_in(parent or id_), call_id)


def _given(tool: BaseTool, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a tool by their names, which its schema has for those that were given without."""
    names = tool.metadata.get_parameters_dict().get("properties", {})
    return {
        **dict(zip(names, args.get("args", ()), strict=False)),
        **{name: value for name, value in args.items() if name not in ("args", "kwargs")},
        **args.get("kwargs", {}),
    }


def _query(args: Mapping[str, Any]) -> str:
    asked = next(iter(args.values()), "")
    return str(getattr(asked, "query_str", asked))


def _ending(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    def span_exit(
        self: Dispatcher,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        result: Any = None,
        **kwargs: Any,
    ) -> Any:
        if (owner := tree.of(id_)[1]) is not None:
            with owner.hooks.guard("span"):
                tree.end(id_)
                _ended(owner, id_, result)
        return original(
            self, id_=id_, bound_args=bound_args, instance=instance, result=result, **kwargs
        )

    return span_exit


def _ended(owner: SpanMark, id_: str, result: Any) -> None:
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
    if hit.score is not None:
        metadata["score"] = float(hit.score)
    return retrieved_doc(node.get_content(), metadata, node.node_id)


def _dropping(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    def span_drop(
        self: Dispatcher,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> Any:
        if (owner := tree.of(id_)[1]) is not None:
            with owner.hooks.guard("span"):
                tree.end(id_)
                # The step pauses for somebody's word, and runs the tool again later.
                waits = type(err).__name__ == "WaitingForEvent"
                if err is None or waits or tree.span(id_).recorded != "tool":
                    owner.runs.forget(id_)
                else:
                    owner.runs.tool_failed(id_, err)
        return original(self, id_=id_, bound_args=bound_args, instance=instance, err=err, **kwargs)

    return span_drop


SPANS: dict[type, dict[str, Make]] = {
    Dispatcher: {"span_enter": _entering, "span_exit": _ending, "span_drop": _dropping}
}
"""Methods of a dispatcher: its handlers' own exceptions are swallowed, and its lists are the app's."""
