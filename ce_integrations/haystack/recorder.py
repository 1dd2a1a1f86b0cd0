"""Records what runs beside the model: tools, those that do not exist included, and what finds documents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from haystack.components.agents import agent
from haystack.dataclasses import Document
from haystack.tools.tool import Tool

from ce_engine import RetrievedDoc
from ce_integrations.calls.tool_events import retrieved_doc
from ce_integrations.calls.tool_methods import (
    MethodCall,
    Outcome,
    RetrievalRecorder,
    Round,
    Run,
    RunInfo,
    ToolRecorder,
)
from ce_integrations.haystack.component_kinds import owner_of
from ce_integrations.haystack.mapper import beside, text_of
from ce_integrations.install.class_adapter import Entry
from ce_integrations.mapping.content_blocks import media_digests
from ce_integrations.wrapping.function_kinds import read_once


# Tools


def _described(called: MethodCall) -> RunInfo:
    return RunInfo(called.subject.name, called.keywords, called.owner.info(conversation=None))


def _as_outcome(result: Any, *, failed: bool = False) -> Outcome:
    """Texts, pictures and files go to the model as those."""
    blocks = beside(result) if isinstance(result, list) else []
    media = media_digests(blocks) if blocks else ()
    return Outcome(text_of(result) if blocks else result, failed, media)


def _outcome(run: Run, result: Any) -> Outcome | None:
    if isinstance(result, str) and not run.subject.outputs_to_string:
        return _as_outcome(result)
    return _round.outcome(run, result)


def _raised(error: BaseException) -> BaseException:
    """What a tool raised is the cause of the framework's `ToolInvocationError`."""
    return error.__cause__ or error


def _record_results(result: Any) -> None:
    """Of all that an answer asks for; what there is no tool for is answered all the same, and recorded so."""
    if (owner := owner_of.step()) is None or owner.hooks is None:
        return
    with owner.hooks.guard("tools"):
        for tool_result in (message.tool_call_result for message in result[0]):
            info, call = owner.info(conversation=None), tool_result.origin
            run = _round.take(call.tool_name, call.arguments, call.id)
            if run is None and owner.hooks.requested_tools.claim(
                info, call.tool_name, call.arguments
            ):
                called = MethodCall(owner, None, (), call.arguments, "")
                run = Run(called, RunInfo(call.tool_name, call.arguments, info, call.id))
            if run is not None:
                run.ended(_as_outcome(tool_result.result, failed=tool_result.error))


_round = Round(read=_as_outcome, hear=_record_results)
"""The tools that run for an answer: what a model is told of an object, their messages say."""

MAKERS: tuple[Entry, ...] = (
    # Functions that an agent's module calls by these names in 3.0 to 3.4.
    (agent, _round, "_run_tool _run_tool_async"),
    (
        Tool,
        ToolRecorder(find=owner_of.step, describe=_described, outcome=_outcome, raised=_raised),
        "invoke invoke_async",
    ),
)


# Documents


def _describe_query(called: MethodCall) -> RunInfo:
    arguments = called.by_name("query")
    argument = arguments.get("query") or arguments.get("queries") or ""
    name = getattr(called.subject, "__component_name__", "") or type(called.subject).__name__
    # What a stateless pipeline finds before it asks goes on with nobody's earlier run.
    texts = argument if isinstance(argument, Collection) else ()
    query = argument if isinstance(argument, str) else "\n".join(map(str, texts))
    return RunInfo(name, query, called.owner.info(conversation=None))


def _hits(result: Any) -> Iterator[RetrievedDoc]:
    documents: list[Document] = result.get("documents") or []
    for document in documents:
        yield retrieved_doc(document.content or "", document.meta, document.id, document.score)


def _read_documents(result: Any) -> Any:
    documents = result.get("documents") if isinstance(result, Mapping) else None
    readable = read_once(documents)
    return result if readable is documents else {**result, "documents": readable}


searches = RetrievalRecorder(
    find=owner_of.step, describe=_describe_query, documents=_hits, read=_read_documents
)
