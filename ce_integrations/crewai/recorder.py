"""Hears CrewAI's events where they are emitted, beside the work itself: tools, tasks, memories, pieces of answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from crewai.events.event_bus import CrewAIEventsBus
from crewai.knowledge.knowledge import Knowledge

from ce_engine import RetrievedDoc, TaskRun
from ce_engine.schema.enums import TaskStatus
from ce_integrations.calls.model_methods import Owner
from ce_integrations.calls.open_turn import call_around, note_piece
from ce_integrations.calls.tool_events import MAX_RUNS, OpenRuns, retrieved_doc
from ce_integrations.calls.tool_methods import MethodCall, RetrievalRecorder, RunInfo
from ce_integrations.crewai.session import info_of, owner_of
from ce_integrations.install.class_adapter import Entry
from ce_integrations.install.marks import Mark
from ce_integrations.mapping.content_blocks import call_args
from ce_integrations.wrapping.bounded_maps import BoundedMap
from ce_integrations.wrapping.function_kinds import same_kind


def _emitting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Listeners hear of events on other threads, in any order; here they are heard where they happen."""

    @same_kind(original)
    def emit(bus: Any, source: Any, event: Any) -> Any:
        future = original(bus, source, event)
        note, owner = HEARD.get(type(event).__name__), owner_of(source)
        if note is not None and owner is not None:
            with owner.hooks.guard("event"):
                note(owner, source, event)
        return future

    return emit


def _runs(owner: Owner) -> OpenRuns[Any]:
    mark = owner.hooks.attached
    assert isinstance(mark, Mark)
    return mark.runs


# Tools: their events name no call of the model's


def _tool_started(owner: Owner, source: Any, event: Any) -> None:
    args, info, around = call_args({"args": event.tool_args}), info_of(owner, source), call_around()
    if around is not None and around.turn is not None and around.turn.handle is not None:
        info.request_id = around.turn.handle.request_id  # a model runs it itself, in its call
    request = owner.hooks.requested_tools.claim(info, event.tool_name, args)
    call_id = None if request is None else request.id
    _runs(owner).begin(event.event_id, event.tool_name, args, info, call_id)


def _tool_ended(owner: Owner, _: Any, event: Any) -> None:
    failed = getattr(event, "failure", None) is not None
    _runs(owner).tool_ended(event.started_event_id, event.output, failed=failed)


def _tool_failed(owner: Owner, _: Any, event: Any) -> None:
    run_id, error, runs = event.started_event_id, event.error, _runs(owner)
    if isinstance(error, BaseException):
        runs.tool_failed(run_id, error)
    else:
        runs.tool_ended(run_id, error, failed=True)


# What a crew works on


_waiting: BoundedMap[str, bool] = BoundedMap(MAX_RUNS)
"""Ids of tasks whose crew has begun and they have not."""


def _tell(owner: Owner, source: Any, runs: Iterable[TaskRun]) -> None:
    if task_runs := list(runs):
        owner.hooks.post("tasks", info_of(owner, source), owner.hooks.engine.post_tasks, task_runs)


def _of(task: Any, status: TaskStatus, crew: Any = None, /, **details: str) -> TaskRun:
    """Where a task stands; it waits for those that it names, else for all before it in its crew."""
    before = task.context
    if not (before is None or isinstance(before, list)):
        tasks = getattr(crew or getattr(task.agent, "crew", None), "tasks", ())
        before = tasks[: next((n for n, candidate in enumerate(tasks) if candidate is task), 0)]
    names = [str(earlier_task.id) for earlier_task in before or ()]
    return TaskRun(str(task.id), task.name or task.description, status, names, **details)


def _crew_started(owner: Owner, crew: Any, _: Any) -> None:
    for task in crew.tasks:
        _waiting.put(str(task.id), True)
    _tell(owner, crew, [_of(task, TaskStatus.PENDING, crew) for task in crew.tasks])


def _crew_ended(owner: Owner, crew: Any, _: Any) -> None:
    """Some were never begun: their condition did not hold, or one before them failed."""
    left = [task for task in crew.tasks if _waiting.pop(str(task.id))]
    _tell(owner, crew, [_of(task, TaskStatus.CANCELLED, crew) for task in left])


def _task_started(owner: Owner, task: Any, _: Any) -> None:
    _waiting.pop(str(task.id))
    _tell(owner, task, [_of(task, TaskStatus.IN_PROGRESS)])


def _task_ended(owner: Owner, task: Any, event: Any) -> None:
    _tell(owner, task, [_of(task, TaskStatus.COMPLETED, result=event.output.raw)])


def _task_failed(owner: Owner, task: Any, event: Any) -> None:
    _tell(owner, task, [_of(task, TaskStatus.FAILED, error=event.error)])


# What is looked up


def _recalled(owner: Owner, source: Any, event: Any) -> None:
    runs = _runs(owner)
    runs.begin(event.event_id, "memory", event.query, info_of(owner, source))
    runs.retrieved(event.event_id, [_memory(hit.record, hit.score) for hit in event.results])


def _memory(record: Any, score: float | None) -> RetrievedDoc:
    metadata = {"source": record.source, **record.metadata}
    return retrieved_doc(record.content, metadata, record.id, score)


def _query(called: MethodCall) -> RunInfo:
    """A query of a knowledge: its event has all texts in one, without ids and scores."""
    texts = called.by_name("query").get("query")
    return RunInfo(
        "knowledge",
        " ".join(texts if isinstance(texts, Collection) else ()),
        info_of(called.owner, called.subject),
    )


def _hits(results: Iterable[Any]) -> Iterator[RetrievedDoc]:
    for hit in results:
        yield retrieved_doc(hit["content"], hit.get("metadata"), str(hit["id"]), hit.get("score"))


def _streamed(_: Owner, __: Any, event: Any) -> None:
    if not event.tool_call:
        note_piece(event.chunk)


HEARD: dict[str, Callable[[Owner, Any, Any], None]] = {
    "ToolUsageStartedEvent": _tool_started,
    "ToolUsageFinishedEvent": _tool_ended,
    "ToolUsageErrorEvent": _tool_failed,
    "CrewKickoffStartedEvent": _crew_started,
    "CrewKickoffCompletedEvent": _crew_ended,
    "CrewKickoffFailedEvent": _crew_ended,
    "TaskStartedEvent": _task_started,
    "TaskCompletedEvent": _task_ended,
    "TaskFailedEvent": _task_failed,
    "MemoryQueryCompletedEvent": _recalled,
    "LLMStreamChunkEvent": _streamed,
}
"""By the names of the events' classes."""

_RECORDER = RetrievalRecorder(find=owner_of, describe=_query, documents=_hits)
MAKERS: tuple[Entry, ...] = (
    (CrewAIEventsBus, _emitting, "emit"),
    (Knowledge, _RECORDER, "query aquery"),
)
