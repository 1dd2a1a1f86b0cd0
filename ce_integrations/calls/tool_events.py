"""Tools and retrievers of which frameworks tell by events: what began, what came of it, and what is at work here."""

from __future__ import annotations

import json
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, SupportsFloat, TypeVar

from ce_engine import Retrieval, RetrievedDoc, ToolCallStatus, ToolRun
from ce_engine.runtime.context_variables import unset
from ce_integrations.calls import evidence_tool as evidence
from ce_integrations.calls.hooks import Hooks
from ce_integrations.identity.session import CallInfo
from ce_integrations.wrapping.bounded_maps import BoundedMap


__all__ = ["OpenRuns", "Work", "as_text", "at_tool", "at_work", "retrieved_doc", "working"]

Id = TypeVar("Id", bound=Hashable)

MAX_RUNS = 20_000
"""Runs that are remembered; a child of one that is forgotten counts as a root."""

URI_KEYS = ("source", "uri", "url", "file_path", "path")
SCORE_KEYS = ("relevance_score", "score", "_score")
"""Where a document's metadata names its origin and its score, by convention."""


@dataclass(frozen=True, slots=True)
class _Begun:
    name: str
    args: Any
    info: CallInfo
    call_id: str | None
    at: str
    clock: float


def _words(error: BaseException) -> str:
    """An error's type and what it says, if it can say it."""
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # noqa: BLE001 - a stranger's error may fail at that, too
        return type(error).__name__


class OpenRuns(Generic[Id]):
    """Tools and retrievers at work, from the event that begins one to the one that ends it.

    The seed's contract (A-23) calls these moments `on_tool_call_start` and `on_tool_call_end`. Runs
    that never end (cancelled) are forgotten in time; one that nobody began is not recorded.

    An id lives from `begin` to the end of the run, and names it in the store from then on: where no
    message asked for the run, the row has it as its id. So it is unique in the session, also after a
    restart: one of the framework that counts from zero with each run is joined with the run's own. Two
    runs of the same id at once are one, the first to begin; the end of either ends it.
    """

    def __init__(self, hooks: Hooks[Any]) -> None:
        self._hooks = hooks
        self._begun: BoundedMap[Id, _Begun] = BoundedMap(MAX_RUNS)

    def begin(
        self, run_id: Id, name: str, args: Any, info: CallInfo, call_id: str | None = None
    ) -> None:
        """A tool begins with its arguments, or a retriever with its query."""
        now = self._hooks.engine.clock.now_iso()
        evidence.begun(self._hooks, run_id, name, args, info)
        self._begun.put(run_id, _Begun(name, args, info, call_id, now, time.perf_counter()))

    def forget(self, run_id: Id) -> None:
        self._over(run_id)

    def _over(self, run_id: Id) -> _Begun | None:
        evidence.ended(self._hooks, run_id)
        return self._begun.pop(run_id)

    def tool_ended(
        self,
        run_id: Id,
        result: object,
        *,
        failed: bool = False,
        media: Sequence[str] = (),
        at: float | None = None,
    ) -> None:
        """A tool gave its result; `failed` where that says so; `media` are digests of what is no text.

        `at` is when it did, by `time.perf_counter`: without it, now.
        """
        status = ToolCallStatus.ERROR if failed else ToolCallStatus.SUCCESS
        self._tool(run_id, as_text(result), status, "", media, at=at)

    def tool_failed(self, run_id: Id, error: BaseException) -> None:
        """A tool raised: the error's type and words, which are redacted before they are stored."""
        status = ToolCallStatus.ERROR
        if isinstance(error, TimeoutError):
            status = ToolCallStatus.TIMEOUT
        elif isinstance(error, PermissionError):
            status = ToolCallStatus.FORBIDDEN
        self._tool(run_id, "", status, type(error).__name__, error=_words(error))

    def _tool(
        self,
        run_id: Id,
        result: str,
        status: ToolCallStatus,
        code: str,
        media: Sequence[str] = (),
        error: str = "",
        at: float | None = None,
    ) -> None:
        begun = self._over(run_id)
        if begun is None:
            return
        run = ToolRun(
            name=begun.name,
            args=begun.args,
            result=result,
            run_id=str(run_id),
            host_call_id=begun.call_id,
            status=status,
            started_at=begun.at,
            duration_ms=_ms_since(begun.clock, at),
            error_code=code,
            media=media,
            error=error,
            task_id=begun.info.task_id or None,
        )
        self._hooks.tool_call(begun.info, run)

    def retrieved(self, run_id: Id, documents: Sequence[RetrievedDoc]) -> None:
        """A retriever gave its hits, best first."""
        begun = self._begun.pop(run_id)
        if begun is None:
            return
        hit = Retrieval(
            name=begun.name,
            query=str(begun.args),
            documents=documents,
            run_id=str(run_id),
            started_at=begun.at,
            duration_ms=_ms_since(begun.clock),
        )
        self._hooks.retrieval(begun.info, hit)


@dataclass(frozen=True, slots=True)
class Work:
    """A tool or retriever at work, with the configuration and the call's id that it was called with."""

    subject: object = None
    config: Any = None
    retriever: object = None
    call_id: str | None = None

    @property
    def is_part(self) -> bool:
        """Whether a retriever works for another one, whose result is what the app gets."""
        return self.retriever is not None and self.retriever is not self.subject


_at_work: ContextVar[Work] = ContextVar("ce_at_work", default=Work())  # noqa: B039 - it is frozen


def at_work() -> Work:
    """What runs around us: events tell neither of the object nor of its configuration."""
    return _at_work.get()


@contextmanager
def working(
    subject: object, config: Any, *, retrieves: bool, call_id: str | None = None
) -> Iterator[None]:
    """Say that a tool or retriever is at work inside."""
    retriever = at_work().retriever or (subject if retrieves else None)
    token = _at_work.set(Work(subject, config, retriever, call_id))
    try:
        yield
    finally:
        unset(_at_work, token)


def at_tool(_: object, tool: object, /, *__: object, **___: object) -> AbstractContextManager[None]:
    """Say so of the tool whose method is called with a model's arguments: `within(at_tool)`, for all that runs it."""
    return working(tool, None, retrieves=False)


def retrieved_doc(
    text: str,
    metadata: Mapping[str, Any] | None,
    id: str = "",  # noqa: A002 - the field's name
    score: SupportsFloat | None = None,
) -> RetrievedDoc:
    """A hit of a retriever: its metadata tells where it is from, and its score where that is not told beside."""
    metadata = metadata or {}
    if score is not None:
        metadata = {**metadata, "score": float(score)}
    best = next((metadata[key] for key in SCORE_KEYS if _is_number(metadata.get(key))), None)
    uri = next((metadata[key] for key in URI_KEYS if metadata.get(key)), "")
    return RetrievedDoc(text=text, uri=str(uri), score=best, metadata=metadata, id=id)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ms_since(clock: float, to: float | None = None) -> int:
    return int(((time.perf_counter() if to is None else to) - clock) * 1000)


def as_text(value: object) -> str:
    """What a tool gave, as the text that a model would be sent."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)
