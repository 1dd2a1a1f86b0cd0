"""Records what runs beside the model: tools of workbenches and of core agents, handoffs, and memories."""

from __future__ import annotations

import secrets
from asyncio import CancelledError, iscoroutinefunction
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from typing import Any

from autogen_core.memory import Memory, MemoryContent
from autogen_core.tools import BaseTool, FunctionTool, ToolResult, Workbench

from ce_engine import RetrievedDoc
from ce_integrations.autogen.marks import PLACE
from ce_integrations.base import Hooks
from ce_integrations.patches import Make
from ce_integrations.runs import OpenRuns, as_text, at_work, retrieved_doc, working
from ce_integrations.steps import Step, sent_from_here, step_around, stepping
from ce_integrations.wrappers import run_within, same_kind


class _Run:
    """A tool or memory at work inside a governed step, from its begin to its end."""

    def __init__(self, step: Step, hooks: Hooks[Any], name: str, given: Any, call_id: Any) -> None:
        self.step = step
        self.given = given
        self._runs: OpenRuns[str] = OpenRuns(hooks)
        self._guard = hooks.guard
        self._id = secrets.token_hex(8)
        with self._noting("begin"):
            self._runs.begin(self._id, name, given, step.info(), call_id)

    @contextmanager
    def _noting(self, where: str) -> Iterator[None]:
        """A fault of ours stays here, whatever was asked for: an agent waits for ever for such a tool."""
        with suppress(Exception), self._guard(where):
            yield

    def gave(self, tool: Any, result: Any) -> None:
        """A tool gave its result, or a workbench a result that says whether it failed."""
        with self._noting("tool"):
            if isinstance(result, ToolResult):
                self._runs.tool_ended(self._id, result.to_text(), failed=result.is_error)
            else:
                text = getattr(tool, "return_value_as_string", as_text)
                self._runs.tool_ended(self._id, text(result))

    def failed(self, error: BaseException) -> None:
        with self._noting("tool"):
            self._runs.tool_failed(self._id, error)

    def found(self, results: Sequence[MemoryContent]) -> None:
        with self._noting("memory"):
            self._runs.retrieved(self._id, list(map(_hit, results)))


class _Query:
    """What a memory is asked; one that is to update a context may find out on its way."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def _hit(content: MemoryContent) -> RetrievedDoc:
    told = content.metadata or {}
    return retrieved_doc(as_text(content.content), told, str(told.get("id") or ""))


def _begun(subject: Any, name: str, given: Any, call_id: Any = None) -> _Run | None:
    """A run, where somebody governs the step and it is no part of another one's in it."""
    step = step_around()
    hooks = None if step is None or step.subject is None else _hooks(step)
    if step is None or hooks is None or _around(subject) is not None:
        return None
    return _Run(step, hooks, name, given, call_id)


def _hooks(step: Step) -> Hooks[Any] | None:
    """Who governs a step; where only a client was installed, who holds it has its tools with it."""
    if step.hooks is not None and step.hooks.active:
        return step.hooks
    marks = map(PLACE.mark_of, getattr(step.subject, "__dict__", {}).values())
    return next((mark.hooks for mark in marks if mark is not None), None)


def _around(subject: Any) -> _Run | None:
    """The run that this one is a part of: its own, or the one of the workbench that the tool is in."""
    work = at_work()
    is_part = work.subject is subject or isinstance(work.subject, Workbench)
    run = work.config if is_part else None
    return run if isinstance(run, _Run) and run.step is step_around() else None


# Tools


def _call_tool(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a workbench: `call_tool(name, arguments, cancellation_token, call_id)`."""

    @same_kind(original)
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        told = _named(args, kwargs, "name", "arguments", "cancellation_token", "call_id")
        run = _begun(self, str(told.get("name")), told.get("arguments"), told.get("call_id"))
        return await _ran(run, self, original(self, *args, **kwargs))

    return call


def _run_json(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a tool without a workbench: `run_json(args, cancellation_token, call_id)`."""

    @same_kind(original)
    async def run_json(self: Any, *args: Any, **kwargs: Any) -> Any:
        told = _named(args, kwargs, "args", "cancellation_token", "call_id")
        run = _begun(self, self.name, told.get("args"), told.get("call_id"))
        return await _ran(run, self, original(self, *args, **kwargs))

    return run_json


def _run_function(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a function tool; a plain function runs in a thread, which inherits nothing.

    It does so in our step, by a copy of the tool, which is read only. A class of the app's own, which
    may write to itself, is left alone.
    """
    if original is not vars(FunctionTool)["run"]:
        return original

    @same_kind(original)
    async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        tool = self
        function: Any = getattr(self, "_func", None)
        if step_around() is not None and not iscoroutinefunction(function):
            with suppress(Exception):  # an app's own class may not be copied
                tool = copy(self)
                vars(tool)["_func"] = partial(_in_step, sent_from_here(), function)
        return await original(tool, *args, **kwargs)

    return run


def _in_step(step: Step, function: Callable[..., Any], /, **given: Any) -> Any:
    with stepping(step), working(function, None, retrieves=False):
        return function(**given)


async def _ran(run: _Run | None, subject: Any, working_on: Any) -> Any:
    if run is None:
        return await working_on
    try:
        with working(subject, run, retrieves=False):
            result = await working_on
    except (Exception, CancelledError) as error:
        run.failed(error)
        raise
    run.gave(subject, result)
    return result


def _call_tool_stream(original: Callable[..., Any]) -> Callable[..., Any]:
    """A workbench that streams gives the tool's events, and its result last."""

    @same_kind(original)
    async def stream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        told = _named(args, kwargs, "name", "arguments", "cancellation_token", "call_id")
        run = _begun(self, str(told.get("name")), told.get("arguments"), told.get("call_id"))
        around = partial(working, self, run, retrieves=False)
        events = run_within(around, original, (self, *args), kwargs)
        try:
            async for event in events:
                if run is not None and isinstance(event, ToolResult):
                    run.gave(self, event)
                yield event
        except (Exception, CancelledError) as error:
            if run is not None:
                run.failed(error)
            raise
        finally:
            await events.aclose()

    return stream


# Memories


def _memory(original: Callable[..., Any]) -> Callable[..., Any]:
    """`update_context(model_context)` and `query(query)`; the first of them to begin is the retrieval."""

    @same_kind(original)
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        query = _Query(_asked(args, kwargs) if original.__name__ == "query" else "")
        around = _around(self)
        if around is not None and isinstance(around.given, _Query):
            around.given.text = query.text or around.given.text
        name = getattr(self, "name", None) or type(self).__name__
        run = _begun(self, str(name), query)
        if run is None:
            return await original(self, *args, **kwargs)
        with working(self, run, retrieves=True):
            result = await original(self, *args, **kwargs)
        found = getattr(result, "memories", result)
        run.found(getattr(found, "results", ()))
        return result

    return call


def _asked(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    query = _named(args, kwargs, "query").get("query")
    said = query.content if isinstance(query, MemoryContent) else query
    return said if isinstance(said, str) else ""


def _named(args: tuple[Any, ...], kwargs: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The arguments of a call by their names."""
    return {**dict(zip(names, args, strict=False)), **kwargs}


MAKERS: dict[type, dict[str, Make]] = {
    Workbench: {"call_tool": _call_tool, "call_tool_stream": _call_tool_stream},
    BaseTool: {"run_json": _run_json},
    FunctionTool: {"run": _run_function},
    Memory: dict.fromkeys(("update_context", "query"), _memory),
}
"""What is wrapped of tools, workbenches and memories."""
