"""Records what runs beside the model: tools of workbenches and of core agents, handoffs, and memories."""

from __future__ import annotations

from asyncio import iscoroutinefunction
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from autogen_core.memory import Memory, MemoryContent
from autogen_core.tools import BaseTool, FunctionTool, ToolResult, Workbench

from ce_engine import RetrievedDoc
from ce_integrations.calls.agent_steps import Step, sent_from_here, step_around, stepping
from ce_integrations.calls.tool_events import as_text, retrieved_doc, working
from ce_integrations.calls.tool_methods import (
    MethodCall,
    Outcome,
    RetrievalRecorder,
    Run,
    RunInfo,
    ToolRecorder,
)
from ce_integrations.install.adapter import Hooks
from ce_integrations.install.class_adapter import Entry
from ce_integrations.install.marks import PLACE
from ce_integrations.wrapping.function_kinds import same_kind


@dataclass(frozen=True, slots=True)
class _Worker:
    """Who governs what an agent's tools and memories do."""

    step: Step
    hooks: Hooks[Any]


def _worker(_: object) -> _Worker | None:
    step = step_around()
    hooks = None if step is None or step.subject is None else _hooks(step)
    return None if step is None or hooks is None else _Worker(step, hooks)


def _hooks(step: Step) -> Hooks[Any] | None:
    """Who governs a step; where only a client was installed, who holds it has its tools with it."""
    if step.hooks is not None and step.hooks.active:
        return step.hooks
    marks = map(PLACE.mark_of, getattr(step.subject, "__dict__", {}).values())
    return next((mark.hooks for mark in marks if mark is not None), None)


# Tools


def _of_workbench(called: MethodCall) -> RunInfo:
    """`call_tool(name, arguments, cancellation_token, call_id)`."""
    arguments = called.by_name("name", "arguments", "cancellation_token", "call_id")
    name, call_id = str(arguments.get("name")), arguments.get("call_id")
    return RunInfo(name, arguments.get("arguments"), called.owner.step.info(), call_id)


def _of_tool(called: MethodCall) -> RunInfo:
    """`run_json(args, cancellation_token, call_id)`, of a tool without a workbench."""
    arguments = called.by_name("args", "cancellation_token", "call_id")
    info = called.owner.step.info()
    return RunInfo(called.subject.name, arguments.get("args"), info, arguments.get("call_id"))


def _outcome(run: Run, result: Any) -> Outcome:
    """A workbench's result says whether the tool failed; a tool says how its own becomes a text."""
    if isinstance(result, ToolResult):
        return Outcome(result.to_text(), result.is_error)
    text = getattr(run.subject, "return_value_as_string", as_text)
    return Outcome(text(result))


def _last(events: list[Any]) -> ToolResult | None:
    """A workbench that streams gives the tool's events, and its result last."""
    return next((event for event in reversed(events) if isinstance(event, ToolResult)), None)


def _is_part(around: Any, tool: Any) -> bool:
    return around is tool or isinstance(around, Workbench)


_tool = ToolRecorder(
    find=_worker, describe=_of_tool, outcome=_outcome, join=_last, is_part=_is_part
)
_call = replace(_tool, describe=_of_workbench)


def _run_function(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of a function tool; a plain function runs in a thread, which inherits nothing.

    It does so in our step, by a copy of the tool, which is read only. A class of the app's own, which
    may write to itself, is left alone.
    """
    if original is not vars(FunctionTool)["run"]:
        return original

    @same_kind(original)
    async def run(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        tool = self
        function: Any = getattr(self, "_func", None)
        if step_around() is not None and not iscoroutinefunction(function):
            with suppress(Exception):  # an app's own class may not be copied
                tool = copy(self)
                vars(tool)["_func"] = partial(_in_step, sent_from_here(), function)
        return await original(tool, *args, **kwargs)

    return run


def _in_step(step: Step, function: Callable[..., Any], /, **kwargs: Any) -> Any:
    with stepping(step), working(function, None, retrieves=False):
        return function(**kwargs)


# Memories


class _Query:
    """What a memory is asked; one that is to update a context may find out on its way."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def _of_memory(called: MethodCall) -> RunInfo:
    """`update_context(model_context)` and `query(query)`; the first of them to begin is the retrieval."""
    name = getattr(called.subject, "name", None) or type(called.subject).__name__
    query = _Query(_words(called) if called.mode == "query" else "")
    return RunInfo(str(name), query, called.owner.step.info())


def _told_late(run: Run, called: MethodCall) -> None:
    """A memory that updates a context asks itself."""
    if called.mode == "query" and isinstance(run.args, _Query):
        run.args.text = _words(called) or run.args.text


def _words(called: MethodCall) -> str:
    query = called.by_name("query").get("query")
    text = query.content if isinstance(query, MemoryContent) else query
    return text if isinstance(text, str) else ""


def _hits(result: Any) -> list[RetrievedDoc]:
    memories = getattr(result, "memories", result)
    return list(map(_hit, getattr(memories, "results", ())))


def _hit(content: MemoryContent) -> RetrievedDoc:
    metadata = content.metadata or {}
    return retrieved_doc(as_text(content.content), metadata, str(metadata.get("id") or ""))


_memory = RetrievalRecorder(
    find=_worker, describe=_of_memory, documents=_hits, note_part=_told_late
)
MAKERS: tuple[Entry, ...] = (
    (Workbench, _call, "call_tool call_tool_stream"),
    (BaseTool, _tool, "run_json"),
    (FunctionTool, _run_function, "run"),
    (Memory, _memory, "update_context query"),
)
"""What is wrapped of tools, workbenches and memories."""
