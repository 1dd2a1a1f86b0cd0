"""Hears CrewAI's events where they are emitted, beside the work itself: tools, tasks, memories, pieces of answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from crewai.events.event_bus import CrewAIEventsBus
from crewai.knowledge.knowledge import Knowledge
from crewai.llms.base_llm import BaseLLM

from ce_engine import RetrievedDoc, TaskRun
from ce_engine.schema.enums import TaskStatus
from ce_integrations.base import CallInfo
from ce_integrations.crewai.mapper import usage_told
from ce_integrations.crewai.scope import claim, info_of, note_usage, owner_of
from ce_integrations.patches import Make
from ce_integrations.runs import OpenRuns, retrieved_doc
from ce_integrations.turns import call_around
from ce_integrations.wrappers import same_kind


def _emitting(original: Callable[..., Any]) -> Callable[..., Any]:
    @same_kind(original)
    def emit(bus: Any, source: Any, event: Any) -> Any:
        given = original(bus, source, event)
        hear, owner = HEARD.get(type(event).__name__), owner_of(source)
        if hear is not None and owner is not None:
            with owner.hooks.guard("event"):
                hear(owner, source, event)
        return given

    return emit


# Tools: no event names the call that it is


def _runs(owner: Any) -> OpenRuns[str]:
    """Those of an installation: a mark's, and where a step runs, the same of its hooks."""
    known = vars(owner.hooks).setdefault("_crewai_runs", OpenRuns(owner.hooks))
    return known  # type: ignore[no-any-return]


def _tool_started(owner: Any, source: Any, event: Any) -> None:
    args = event.tool_args
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except ValueError:
            args = {"input": args}
    info, around = info_of(owner, source), call_around()
    if around is not None and around.turn is not None and around.turn.handle is not None:
        info.request_id = around.turn.handle.request_id  # a model ran it itself
    _runs(owner).begin(event.event_id, event.tool_name, args, info, claim(event.tool_name, args))


def _tool_finished(owner: Any, _: Any, event: Any) -> None:
    failed = getattr(event, "failure", None) is not None
    _runs(owner).tool_ended(event.started_event_id or "", event.output, failed=failed)


def _tool_failed(owner: Any, _: Any, event: Any) -> None:
    run_id, error = event.started_event_id or "", event.error
    if isinstance(error, BaseException):
        _runs(owner).tool_failed(run_id, error)
    else:
        _runs(owner).tool_ended(run_id, str(error), failed=True)


# What a crew works on


def _tell(owner: Any, source: Any, runs: Iterable[TaskRun]) -> None:
    info, hooks = info_of(owner, source), owner.hooks
    hooks.post("tasks", info, hooks.engine.post_tasks, list(runs))


def _run_of(task: Any, status: TaskStatus, result: str = "", error: str = "") -> TaskRun:
    crew = getattr(task.agent, "crew", None)
    return TaskRun(str(task.id), task.name or task.description, status, _before(task, crew), result, error)


def _before(task: Any, crew: Any) -> list[str]:
    """What a task waits for: the tasks that it names, else all that stand before it in its crew."""
    if task.context is None or isinstance(task.context, list):
        return [str(each.id) for each in task.context or ()]
    tasks = [each.id for each in getattr(crew, "tasks", ())]
    at = tasks.index(task.id) if task.id in tasks else 0
    return list(map(str, tasks[:at]))


def _crew_started(owner: Any, crew: Any, _: Any) -> None:
    runs = ((task, _before(task, crew)) for task in crew.tasks)
    names = ((str(task.id), task.name or task.description, before) for task, before in runs)
    _tell(owner, crew, [TaskRun(id_, name, depends_on=before) for id_, name, before in names])


def _task_started(owner: Any, task: Any, _: Any) -> None:
    _tell(owner, task, [_run_of(task, TaskStatus.IN_PROGRESS)])


def _task_completed(owner: Any, task: Any, event: Any) -> None:
    _tell(owner, task, [_run_of(task, TaskStatus.COMPLETED, event.output.raw)])


def _task_failed(owner: Any, task: Any, event: Any) -> None:
    _tell(owner, task, [_run_of(task, TaskStatus.FAILED, error=event.error)])


def _crew_ended(owner: Any, crew: Any, _: Any) -> None:
    """Tasks that were never done: skipped by their condition, or behind one that failed."""
    left = [task for task in crew.tasks if task.start_time is None or not _is_done(task)]
    _tell(owner, crew, [_run_of(task, TaskStatus.CANCELLED) for task in left if task.start_time is None])


def _is_done(task: Any) -> bool:
    return task.output is not None


# What is looked up


def _recalled(owner: Any, source: Any, event: Any) -> None:
    documents = [
        retrieved_doc(
            match.record.content,
            {"source": match.record.source, **match.record.metadata, "score": match.score},
            match.record.id,
        )
        for match in event.results
        if hasattr(match, "record")
    ]
    _found(owner, source, "memory", event.query, documents)


def _found(owner: Any, source: Any, name: str, query: str, documents: list[RetrievedDoc]) -> None:
    runs, key = _runs(owner), f"{name}-{id(documents)}"
    runs.begin(key, name, query, info_of(owner, source))
    runs.retrieved(key, documents)


def _looks_up(original: Callable[..., Any]) -> Callable[..., Any]:
    """A query of a knowledge: its event has the texts in one, without ids and scores."""

    def told(knowledge: Any, queries: Any, results: Any) -> Any:
        if (owner := owner_of(knowledge)) is not None:
            with owner.hooks.guard("knowledge"):
                hits = [retrieved_doc(_text(hit), _metadata(hit), str(hit.get("id") or "")) for hit in results]
                _found(owner, knowledge, "knowledge", " ".join(queries), hits)
        return results

    @same_kind(original)
    def query(knowledge: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        results = original(knowledge, query, *args, **kwargs)
        if not hasattr(results, "__await__"):
            return told(knowledge, query, results)

        async def awaited() -> Any:
            return told(knowledge, query, await results)

        return awaited()

    return query


def _text(hit: Any) -> str:
    return str(hit.get("content") or hit.get("context") or "")


def _metadata(hit: Any) -> dict[str, Any]:
    return {**(hit.get("metadata") or {}), "score": hit.get("score")}


# Of a model's call


def _streamed(_: Any, __: Any, event: Any) -> None:
    around = call_around()
    if around is not None and around.turn is not None:
        around.turn.hear("" if event.tool_call else event.chunk)


def _tracked(original: Callable[..., Any]) -> Callable[..., Any]:
    """What a provider told of its call: in every release and provider it comes by here."""

    @same_kind(original)
    def track(model: Any, usage_data: Any) -> Any:
        if (owner := owner_of(model)) is not None:
            with owner.hooks.guard("usage"):
                note_usage(usage_told(usage_data))
        return original(model, usage_data)

    return track


HEARD: dict[str, Callable[[Any, Any, Any], None]] = {
    "ToolUsageStartedEvent": _tool_started,
    "ToolUsageFinishedEvent": _tool_finished,
    "ToolUsageErrorEvent": _tool_failed,
    "CrewKickoffStartedEvent": _crew_started,
    "CrewKickoffCompletedEvent": _crew_ended,
    "CrewKickoffFailedEvent": _crew_ended,
    "TaskStartedEvent": _task_started,
    "TaskCompletedEvent": _task_completed,
    "TaskFailedEvent": _task_failed,
    "MemoryQueryCompletedEvent": _recalled,
    "LLMStreamChunkEvent": _streamed,
}
"""Events by their names: not every release has all of them."""

MAKERS: dict[type, dict[str, Make]] = {
    CrewAIEventsBus: {"emit": _emitting},
    Knowledge: dict.fromkeys(("query", "aquery"), _looks_up),
}
USAGE: dict[type, dict[str, Make]] = {BaseLLM: {"_track_token_usage_internal": _tracked}}
