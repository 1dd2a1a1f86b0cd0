"""Records what runs beside the model: functions that it calls, and searches."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any

from semantic_kernel.contents import FunctionResultContent
from semantic_kernel.data.vector import DistanceFunction

from ce_engine import RetrievedDoc
from ce_integrations.calls.agent_steps import Step, deeper, in_step, step_around
from ce_integrations.calls.tool_events import URI_KEYS, at_work, retrieved_doc
from ce_integrations.calls.tool_methods import MethodCall, Outcome, Run, RunInfo, ToolRecorder
from ce_integrations.install.adapter import CallInfo
from ce_integrations.install.class_adapter import Entry
from ce_integrations.mapping.content_blocks import call_args, fields_of
from ce_integrations.semantic_kernel.context_injection import function_step, owner_of
from ce_integrations.wrapping.function_kinds import same_kind


FARNESS = ("euclidean_distance", "euclidean_squared_distance", "manhattan", "hamming")
"""Distances that begin at 0 and have no end."""


def _info() -> CallInfo:
    step = step_around()
    return deeper(None).info() if step is None else step.info()


# Functions that a model calls


def _describe_call(called: MethodCall) -> RunInfo:
    call = called.args[1]
    return RunInfo(str(call.name or ""), call_args(vars(call)), _info(), call.id)


def _outcome(_: Run, run_result: tuple[Any, Any, Any]) -> Outcome:
    """What the model is told; of a wrong name or wrong arguments by the kernel itself, in its own words."""
    _, call, history = run_result
    items = (item for message in reversed(history.messages) for item in message.items)
    results = (item for item in items if isinstance(item, FunctionResultContent))
    result = next((item for item in results if item.id == (call.id or "unknown")), None)
    return Outcome(str(result), failed=result is None or isinstance(result.inner_content, str))


def _line(_: Any, __: Any, call: Any, *___: Any) -> Step:
    return deeper(call, str(call.name or ""))


@ToolRecorder(find=owner_of, describe=_describe_call, outcome=_outcome)
@in_step(_line)
async def _run(kernel: Any, original: Any, call: Any, history: Any, kwargs: Any) -> Any:
    """What the kernel gives, beside what tells which result it added to the history."""
    return await original(kernel, call, history, **kwargs), call, history


def _called(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a kernel: `invoke_function_call(function_call, chat_history, ...)`."""

    @same_kind(original)
    async def invoke(self: Any, /, function_call: Any, chat_history: Any, **kwargs: Any) -> Any:
        return (await _run(self, original, function_call, chat_history, kwargs))[0]

    return invoke


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a function: what it raises, of which the kernel makes a text.

    The outermost one ends last, and it is what the model called.
    """

    @same_kind(original)
    async def invoke(*args: Any, **kwargs: Any) -> Any:
        run, raised = at_work().config, None
        try:
            return await original(*args, **kwargs)
        except (Exception, CancelledError) as error:
            raised = error
            raise
        finally:
            if isinstance(run, Run):
                run.error = raised

    return invoke


# Searches


def _search(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a collection: `_inner_search(search_type, options, values, vector)`."""

    @same_kind(original)
    async def search(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = await original(self, *args, **kwargs)
        owner, results = owner_of(self), result.results
        if owner is None or not owner.hooks.active or not isinstance(results, AsyncGenerator):
            return result
        heard: Any = results
        with owner.hooks.guard("search"):
            called = MethodCall(owner, self, args, kwargs, original.__name__)
            arguments = called.by_name("search_type", "options", "values")
            query = arguments.get("values")
            text = query if isinstance(query, str) else ""
            name = getattr(self, "collection_name", type(self).__name__)
            run = Run(called, RunInfo(name, text, _info()))
            heard = _heard(self, results, run, arguments.get("options"))
        return result.model_copy(update={"results": heard}) if heard is not results else result

    return search


async def _heard(
    collection: Any, results: AsyncGenerator[Any, None], run: Run, options: Any
) -> AsyncGenerator[Any, None]:
    """The hits as they come: they are looked up while they are read."""
    hits: list[Any] = []
    try:
        async for hit in results:
            hits.append(hit)
            yield hit
    finally:
        await results.aclose()
        with run.noting("search"):
            run.add_documents(_document(collection, hit, options) for hit in hits)


def _document(collection: Any, hit: Any, options: Any) -> RetrievedDoc:
    """A hit: its text is the field that is indexed as one, else the longest that names no origin."""
    definition, record = collection.definition, hit.record
    record = fields_of(record)
    fields = {field.name: record.get(field.name) for field in definition.data_fields}
    texts = [
        (bool(field.is_full_text_indexed), len(value.encode("utf-8", "replace")), field.name)
        for field in definition.data_fields
        if isinstance(value := fields[field.name], str) and field.name not in URI_KEYS
    ]
    text = str(fields.pop(max(texts)[2])) if texts else ""
    document = retrieved_doc(text, fields, str(record.get(definition.key_name) or ""))
    field = definition.try_get_vector_field(getattr(options, "vector_property_name", None))
    return replace(document, score=_nearness(hit.score, field, type(collection).__name__))


def _nearness(score: float | None, field: Any, kind: str) -> float | None:
    """A similarity: of distances less is better. Collections in memory have a default of their own."""
    function = getattr(field, "distance_function", None)
    if function is DistanceFunction.DEFAULT and kind == "InMemoryCollection":
        function = DistanceFunction.COSINE_DISTANCE
    if score is None:
        return None
    if function is DistanceFunction.COSINE_DISTANCE:
        score = 1 - score
    return round(1 / (1 + score) if function in FARNESS else score, 6)


FUNCTION = "semantic_kernel.functions.kernel_function.KernelFunction"
MAKERS: tuple[Entry, ...] = (
    ("semantic_kernel.kernel.Kernel", _called, "invoke_function_call"),
    (FUNCTION, lambda original: function_step(_noting(original)), "invoke"),
    (FUNCTION, function_step, "invoke_stream"),
    ("semantic_kernel.data.vector.VectorSearch", _search, "_inner_search"),
)
"""What is wrapped of kernels, functions and collections."""
