"""The engine for synchronous callers: the same coroutines, run on the engine's own loop thread (C-12)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from ce_engine.engine import Engine
from ce_engine.schema.report import Report
from ce_engine.schema.scope import Scope
from ce_engine.sessions.owner.budgets import Budgets
from ce_engine.sessions.owner.constraints import Constraints


P = ParamSpec("P")
T = TypeVar("T")


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """A method with the same parameters and docstring that waits for the end of an async one."""
    name = method.__name__

    @wraps(method)
    def call(self: _Blocking, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._guard.handing_over():
            result: T = self._run(getattr(self._asks, name)(*args, **kwargs))
        return result

    return call


class _Blocking:
    """Runs methods of what it `asks` on the engine's own loop."""

    def __init__(self, engine: Engine, asks: object) -> None:
        self._run, self._asks, self._guard = engine.loop.run, asks, engine.guard


class SyncConstraints(_Blocking):
    """The methods of `Constraints`, blocking."""

    list = blocking(Constraints.list)
    create = blocking(Constraints.create)
    update = blocking(Constraints.update)
    delete = blocking(Constraints.delete)
    accept = blocking(Constraints.accept)


class SyncBudgets(_Blocking):
    """The methods of `Budgets`, blocking."""

    get = blocking(Budgets.get)
    update = blocking(Budgets.update)


class SyncEngine(_Blocking):
    """The methods of `Engine`, blocking. They work under a running loop and in thread pools.

    Raises:
        SyncCallError: called from the engine's own thread (an event handler).
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, engine)
        self._engine = engine
        self.constraints = SyncConstraints(engine, engine.constraints)
        self.budgets = SyncBudgets(engine, engine.budgets)

    prepare = blocking(Engine.prepare)
    commit = blocking(Engine.commit)
    fail = blocking(Engine.fail)
    finalize = blocking(Engine.finalize)
    prepare_turn = blocking(Engine.prepare_turn)
    import_session = blocking(Engine.import_session)
    commit_assistant_message = blocking(Engine.commit_assistant_message)
    commit_assistant_chunk = blocking(Engine.commit_assistant_chunk)
    finalize_assistant_message = blocking(Engine.finalize_assistant_message)
    fail_turn = blocking(Engine.fail_turn)
    record_tool_call = blocking(Engine.record_tool_call)
    record_model_usage = blocking(Engine.record_model_usage)
    record_evidence = blocking(Engine.record_evidence)
    ingest = blocking(Engine.ingest)
    redact = blocking(Engine.redact)
    record_tool_run = blocking(Engine.record_tool_run)
    record_retrieval = blocking(Engine.record_retrieval)
    put_context_blocks = blocking(Engine.put_context_blocks)
    upsert_tasks = blocking(Engine.upsert_tasks)
    record_event = blocking(Engine.record_event)
    summarize = blocking(Engine.summarize)
    compact = blocking(Engine.compact)
    violations = blocking(Engine.violations)
    trace = blocking(Engine.trace)
    replay = blocking(Engine.replay)
    explain = blocking(Engine.explain)
    handover = blocking(Engine.handover)
    recorded_call = blocking(Engine.recorded_call)
    inspect = blocking(Engine.inspect)
    preview = blocking(Engine.preview)
    original = blocking(Engine.original)
    list_sessions = blocking(Engine.list_sessions)
    get_session = blocking(Engine.get_session)
    get_evidence = blocking(Engine.get_evidence)
    list_evidences = blocking(Engine.list_evidences)
    fetch_evidence = blocking(Engine.fetch_evidence)
    list_turns = blocking(Engine.list_turns)
    list_reports = blocking(Engine.list_reports)
    list_events = blocking(Engine.list_events)
    delete_session = blocking(Engine.delete_session)
    delete_evidence = blocking(Engine.delete_evidence)
    delete_user_data = blocking(Engine.delete_user_data)
    sweep = blocking(Engine.sweep)
    export_user_data = blocking(Engine.export_user_data)
    verify = blocking(Engine.verify)
    verify_originals = blocking(Engine.verify_originals)
    verify_settings = blocking(Engine.verify_settings)
    check = blocking(Engine.check)
    flush = blocking(Engine.flush)

    def last_report(self, session_id: Scope | str) -> Report | None:
        return self._engine.last_report(session_id)

    def close(self, timeout_s: float = 5.0) -> None:
        """Store what was accepted, and let go of threads and files."""
        self._run(self._engine.close(timeout_s))
        self._engine.loop.close()
