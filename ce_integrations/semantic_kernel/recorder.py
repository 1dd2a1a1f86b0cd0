"""Records what runs beside the model: functions that it calls, and searches."""

from __future__ import annotations

import inspect
import secrets
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Any

from semantic_kernel.contents import FunctionCallContent, FunctionResultContent
from semantic_kernel.data.vector import DistanceFunction, VectorSearch
from semantic_kernel.functions.kernel_function import KernelFunction
from semantic_kernel.kernel import Kernel

from ce_engine import RetrievedDoc
from ce_integrations.base import CallInfo, Hooks
from ce_integrations.blocks import tool_requests
from ce_integrations.patches import Make
from ce_integrations.runs import URI_KEYS, OpenRuns, at_work, retrieved_doc, working
from ce_integrations.semantic_kernel.members import function_entry, hooks_of
from ce_integrations.steps import Step, deeper, step_around, stepping
from ce_integrations.wrappers import same_kind


DISTANCES = (
    DistanceFunction.EUCLIDEAN_DISTANCE,
    DistanceFunction.EUCLIDEAN_SQUARED_DISTANCE,
    DistanceFunction.MANHATTAN,
    DistanceFunction.HAMMING,
)


def _here(subject: Any) -> tuple[Hooks[Any] | None, Step | None]:
    """Who governs what runs here: the step's installation, else in no step the object's own."""
    step = step_around()
    hooks = hooks_of(subject) if step is None else step.hooks
    return (hooks if hooks is not None and hooks.active else None), step


class _Run:
    """A function that a model called, from its call to the message that answers it."""

    def __init__(self, hooks: Hooks[Any], info: CallInfo, call: FunctionCallContent) -> None:
        self.error: BaseException | None = None
        """What the function raised at last, which the kernel makes a text of."""
        self._guard = hooks.guard
        self._runs: OpenRuns[str] = OpenRuns(hooks)
        self._id = secrets.token_hex(8)
        with self._guard("begin"):
            (asked,) = tool_requests([call])
            self._runs.begin(self._id, asked.name, asked.args, info, call.id)

    def ended(self, call: FunctionCallContent, messages: list[Any]) -> None:
        """It is answered; a name or arguments that are wrong are, too, and nothing has run."""
        with self._guard("tool"):
            results = (
                item
                for message in reversed(messages)
                for item in message.items
                if isinstance(item, FunctionResultContent) and item.id == (call.id or "unknown")
            )
            result = next(results, None)
            if self.error is not None:
                self._runs.tool_failed(self._id, self.error)
            else:
                # The kernel's own words are a text, what a function gave is a `FunctionResult`.
                failed = result is None or isinstance(result.inner_content, str)
                self._runs.tool_ended(self._id, str(result), failed=failed)

    def failed(self, error: BaseException) -> None:
        with self._guard("tool"):
            self._runs.tool_failed(self._id, error)


def _call(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a kernel: `invoke_function_call(function_call, chat_history, ...)`."""

    @same_kind(original)
    async def invoke(
        self: Any, function_call: Any, chat_history: Any, *args: Any, **kwargs: Any
    ) -> Any:
        hooks, step = _here(self)
        if hooks is None:
            return await original(self, function_call, chat_history, *args, **kwargs)
        around = step or deeper(self, "", hooks, conversation=chat_history)
        run = _Run(hooks, around.info(), function_call)
        inner = deeper(run, str(function_call.name or ""), hooks, around=around)
        try:
            with stepping(inner), working(self, run, retrieves=False):
                result = await original(self, function_call, chat_history, *args, **kwargs)
        except (Exception, CancelledError) as error:
            run.failed(error)
            raise
        run.ended(function_call, chat_history.messages)
        return result

    return invoke


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a function: what it raises. The outermost one ends last, and it is what the model called."""

    @same_kind(original)
    async def invoke(self: Any, *args: Any, **kwargs: Any) -> Any:
        run = at_work().config
        if not isinstance(run, _Run):
            return await original(self, *args, **kwargs)
        try:
            result = await original(self, *args, **kwargs)
        except (Exception, CancelledError) as error:
            run.error = error
            raise
        run.error = None
        return result

    return invoke


# Searches


def _search(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a collection: `_inner_search(search_type, options, values, vector)`."""

    @same_kind(original)
    async def search(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = await original(self, *args, **kwargs)
        hooks, step = _here(self)
        if hooks is None or not inspect.isasyncgen(found.results):
            return found
        with hooks.guard("search"):
            told = {**dict(zip(("search_type", "options", "values"), args, strict=False)), **kwargs}
            info = CallInfo(request_id=secrets.token_hex(8)) if step is None else step.info()
            heard = _heard(self, found.results, told, hooks, info)
            return found.model_copy(update={"results": heard})
        return found

    return search


async def _heard(
    collection: Any,
    results: AsyncGenerator[Any, None],
    told: Mapping[str, Any],
    hooks: Hooks[Any],
    info: CallInfo,
) -> AsyncGenerator[Any, None]:
    """The hits as they come: they are looked up while they are read."""
    runs, run_id, hits = OpenRuns[str](hooks), secrets.token_hex(8), list[Any]()
    values = told.get("values")
    query = values if isinstance(values, str) else ""
    runs.begin(run_id, collection.collection_name, query, info)
    try:
        async for hit in results:
            hits.append(hit)
            yield hit
    finally:
        await results.aclose()
        with hooks.guard("search"):
            nearness = _nearness(collection, told.get("options"))
            runs.retrieved(run_id, [_document(collection, hit, nearness) for hit in hits])


def _document(collection: Any, hit: Any, nearness: Callable[[float], float]) -> RetrievedDoc:
    """A hit: its text is the field that is indexed as one, else the longest that names no origin."""
    definition = collection.definition
    record = hit.record if isinstance(hit.record, Mapping) else vars(hit.record)
    told = {field.name: record.get(field.name) for field in definition.data_fields}
    texts = [
        (bool(field.is_full_text_indexed), len(value.encode("utf-8", "replace")), field.name)
        for field in definition.data_fields
        if isinstance(value := told[field.name], str) and field.name not in URI_KEYS
    ]
    text = told.pop(max(texts)[2]) if texts else ""
    found = retrieved_doc(text, told, str(record.get(definition.key_name) or ""))
    return replace(found, score=None if hit.score is None else nearness(hit.score))


def _as_it_is(score: float) -> float:
    return round(score, 6)


def _nearness(collection: Any, options: Any) -> Callable[[float], float]:
    """What makes a similarity of a score: some functions give distances, of which less is better."""
    field = collection.definition.try_get_vector_field(
        getattr(options, "vector_property_name", None)
    )
    function = getattr(field, "distance_function", None)
    in_memory = type(collection).__module__ == "semantic_kernel.connectors.in_memory"
    if function is DistanceFunction.DEFAULT and in_memory:
        function = DistanceFunction.COSINE_DISTANCE
    if function is DistanceFunction.COSINE_DISTANCE:
        return lambda score: round(1 - score, 6)
    return (lambda score: round(1 / (1 + score), 6)) if function in DISTANCES else _as_it_is


MAKERS: dict[type, dict[str, Make]] = {
    Kernel: {"invoke_function_call": _call},
    KernelFunction: {"invoke": lambda original: function_entry(_noting(original))},
    VectorSearch: {"_inner_search": _search},
}
"""What is wrapped of kernels, functions and collections."""
