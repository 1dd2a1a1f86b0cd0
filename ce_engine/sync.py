"""The engine for synchronous callers: the same coroutines, run on the engine's own loop thread (C-12)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ce_engine.config import BudgetConfig, CompactionConfig, RuntimeConfig
from ce_engine.engine import Engine
from ce_engine.ports.redaction import RedactResult
from ce_engine.schema.call import (
    Answer,
    CallerRole,
    HostMessage,
    ModelCall,
    Prepared,
    TurnHandle,
    Usage,
)
from ce_engine.schema.document import (
    ContextBlock,
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    Message,
    ModelUsage,
    Ref,
    SessionDocument,
    Summary,
    Task,
    ToolCall,
)
from ce_engine.schema.enums import EvidenceType, Priority, TurnStatus
from ce_engine.schema.events import CompactLog, Event, Verification
from ce_engine.schema.replay import Explanation, Inspection, Replay
from ce_engine.schema.report import (
    Deleted,
    EvidenceFilter,
    Imported,
    PrepareResult,
    PutResult,
    Report,
)
from ce_engine.schema.rows import SessionInfo, TurnRow
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Constraint
from ce_engine.schema.tool_runs import IngestOptions, Original, Retrieval, ToolRun
from ce_engine.schema.trace import Trace


class SyncEngine:
    """The methods of `Engine`, blocking. They work under a running loop and in thread pools.

    Raises:
        SyncCallError: called from the engine's own thread (an event handler).
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._run = engine.loop.run
        self.constraints = SyncConstraints(engine)
        self.budgets = SyncBudgets(engine)

    def prepare(self, call: ModelCall) -> Prepared:
        return self._run(self._engine.prepare(call))

    def commit(
        self,
        turn: TurnHandle,
        answer: Answer,
        *,
        status: TurnStatus = TurnStatus.COMMITTED,
        usage: Usage | None = None,
    ) -> None:
        self._run(self._engine.commit(turn, answer, status=status, usage=usage))

    def fail(
        self,
        turn: TurnHandle,
        error_code: str,
        *,
        status: TurnStatus = TurnStatus.FAILED,
        partial: str = "",
        usage: Usage | None = None,
    ) -> None:
        self._run(self._engine.fail(turn, error_code, status=status, partial=partial, usage=usage))

    def finalize(
        self,
        turn: TurnHandle,
        *,
        status: TurnStatus = TurnStatus.COMMITTED,
        usage: Usage | None = None,
        answer: Answer | None = None,
        refs: Sequence[Ref] | None = None,
    ) -> None:
        self._run(self._engine.finalize(turn, status=status, usage=usage, answer=answer, refs=refs))

    def prepare_turn(
        self,
        session_id: Scope | str,
        user_message: Message | Sequence[Message],
        runtime_config: RuntimeConfig | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        request_id: str = "",
        text: bool = False,
        role: CallerRole = "agent",
        want: Collection[str] = (),
    ) -> PrepareResult:
        return self._run(
            self._engine.prepare_turn(
                session_id,
                user_message,
                runtime_config,
                tools=tools,
                request_id=request_id,
                text=text,
                role=role,
                want=want,
            )
        )

    def import_session(
        self,
        session_id: Scope | str,
        messages: Sequence[Message | HostMessage],
        *,
        framework: str = "",
        progress: Callable[[int], None] | None = None,
    ) -> Imported:
        return self._run(
            self._engine.import_session(
                session_id, messages, framework=framework, progress=progress
            )
        )

    def commit_assistant_message(
        self,
        session_id: Scope | str,
        assistant_message: Message,
        refs: Sequence[Ref] | None = None,
        *,
        turn_id: str | None = None,
        usage: Usage | None = None,
        model: str = "",
        provider: str = "",
    ) -> PutResult:
        return self._run(
            self._engine.commit_assistant_message(
                session_id,
                assistant_message,
                refs,
                turn_id=turn_id,
                usage=usage,
                model=model,
                provider=provider,
            )
        )

    def commit_assistant_chunk(
        self, session_id: Scope | str, chunk: str, chunk_index: int, *, turn_id: str | None = None
    ) -> None:
        self._run(
            self._engine.commit_assistant_chunk(session_id, chunk, chunk_index, turn_id=turn_id)
        )

    def finalize_assistant_message(
        self,
        session_id: Scope | str,
        refs: Sequence[Ref] | None = None,
        *,
        turn_id: str | None = None,
        usage: Usage | None = None,
        complete: bool = True,
    ) -> PutResult:
        return self._run(
            self._engine.finalize_assistant_message(
                session_id, refs, turn_id=turn_id, usage=usage, complete=complete
            )
        )

    def fail_turn(
        self, session_id: Scope | str, error_code: str, *, turn_id: str | None = None
    ) -> PutResult:
        return self._run(self._engine.fail_turn(session_id, error_code, turn_id=turn_id))

    def record_tool_call(
        self,
        session_id: Scope | str,
        tool_call: ToolCall,
        result_evidence_ids: Sequence[str] | None = None,
        turn_id: str | None = None,
    ) -> PutResult:
        return self._run(
            self._engine.record_tool_call(session_id, tool_call, result_evidence_ids, turn_id)
        )

    def record_model_usage(
        self,
        session_id: Scope | str,
        model_usage: ModelUsage,
        llm_output_evidence_id: str | None = None,
        *,
        turn_id: str | None = None,
    ) -> PutResult:
        return self._run(
            self._engine.record_model_usage(
                session_id, model_usage, llm_output_evidence_id, turn_id=turn_id
            )
        )

    def record_evidence(
        self,
        session_id: Scope | str,
        content: str,
        source: EvidenceSource,
        type: EvidenceType,  # noqa: A002 - the schema's name
        *,
        links: EvidenceLinks | None = None,
        metadata: Mapping[str, Any] | None = None,
        turn_id: str | None = None,
    ) -> Evidence:
        return self._run(
            self._engine.record_evidence(
                session_id, content, source, type, links=links, metadata=metadata, turn_id=turn_id
            )
        )

    def ingest(
        self,
        session_id: Scope | str,
        content: str,
        source: EvidenceSource,
        evidence_type: EvidenceType,
        links: EvidenceLinks | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: IngestOptions | None = None,
    ) -> Evidence:
        return self._run(
            self._engine.ingest(
                session_id, content, source, evidence_type, links, metadata, options
            )
        )

    def redact(self, session_id: Scope | str, text: str) -> RedactResult:
        return self._run(self._engine.redact(session_id, text))

    def record_tool_run(
        self, session_id: Scope | str, run: ToolRun, *, request_id: str = ""
    ) -> ToolCall:
        return self._run(self._engine.record_tool_run(session_id, run, request_id=request_id))

    def record_retrieval(
        self, session_id: Scope | str, hit: Retrieval, *, request_id: str = ""
    ) -> list[str]:
        return self._run(self._engine.record_retrieval(session_id, hit, request_id=request_id))

    def put_context_blocks(self, session_id: Scope | str, blocks: Sequence[ContextBlock]) -> None:
        self._run(self._engine.put_context_blocks(session_id, blocks))

    def upsert_tasks(self, session_id: Scope | str, tasks: Sequence[Task]) -> None:
        self._run(self._engine.upsert_tasks(session_id, tasks))

    def record_event(self, session_id: Scope | str, kind: str, payload: Mapping[str, Any]) -> None:
        self._run(self._engine.record_event(session_id, kind, payload))

    def summarize(
        self, session_id: Scope | str, lane: str | None = None, *, only_if_due: bool = False
    ) -> Summary | None:
        return self._run(self._engine.summarize(session_id, lane, only_if_due=only_if_due))

    def compact(
        self, session_id: Scope | str, config: CompactionConfig | None = None
    ) -> CompactLog:
        return self._run(self._engine.compact(session_id, config))

    def violations(self, session_id: Scope | str, turn_id: str | None = None) -> list[Constraint]:
        return self._run(self._engine.violations(session_id, turn_id))

    def trace(self, session_id: Scope | str, ref: Ref | str) -> Trace:
        return self._run(self._engine.trace(session_id, ref))

    def replay(
        self,
        session_id: Scope | str,
        turn: int | str | None = None,
        config: RuntimeConfig | None = None,
        system: str | Sequence[str] | None = None,
    ) -> Replay:
        return self._run(self._engine.replay(session_id, turn, config, system))

    def explain(self, session_id: Scope | str, turn: int | str | None = None) -> Explanation:
        return self._run(self._engine.explain(session_id, turn))

    def recorded_call(self, session_id: Scope | str) -> ModelCall | None:
        return self._run(self._engine.recorded_call(session_id))

    def inspect(
        self, call: ModelCall | tuple[Scope | str, Message | str], *, actor: str
    ) -> Inspection:
        return self._run(self._engine.inspect(call, actor=actor))

    def preview(self, call: ModelCall) -> Prepared:
        return self._run(self._engine.preview(call))

    def original(self, session_id: Scope | str, piece_id: str, *, actor: str) -> Original:
        return self._run(self._engine.original(session_id, piece_id, actor=actor))

    def list_sessions(
        self, *, account_id: str = "", user_id: str | None = "", ephemeral: bool = False
    ) -> list[SessionInfo]:
        return self._run(
            self._engine.list_sessions(account_id=account_id, user_id=user_id, ephemeral=ephemeral)
        )

    def get_session(self, session_id: Scope | str) -> SessionDocument | None:
        return self._run(self._engine.get_session(session_id))

    def get_evidence(self, session_id: Scope | str, evidence_id: str) -> Evidence | None:
        return self._run(self._engine.get_evidence(session_id, evidence_id))

    def list_evidences(
        self,
        session_id: Scope | str,
        filter: EvidenceFilter | None = None,  # noqa: A002 - the store's name
    ) -> list[Evidence]:
        return self._run(self._engine.list_evidences(session_id, filter))

    def fetch_evidence(
        self, session_id: Scope | str, evidence_id: str, lines: str = "", find: str = ""
    ) -> str:
        return self._run(self._engine.fetch_evidence(session_id, evidence_id, lines, find))

    def list_turns(self, session_id: Scope | str) -> list[TurnRow]:
        return self._run(self._engine.list_turns(session_id))

    def list_reports(self, session_id: Scope | str) -> list[Report]:
        return self._run(self._engine.list_reports(session_id))

    def list_events(self, session_id: Scope | str) -> list[Event]:
        return self._run(self._engine.list_events(session_id))

    def last_report(self, session_id: Scope | str) -> Report | None:
        return self._engine.last_report(session_id)

    def delete_session(self, session_id: Scope | str) -> Deleted:
        return self._run(self._engine.delete_session(session_id))

    def delete_evidence(self, session_id: Scope | str, evidence_id: str) -> Deleted:
        return self._run(self._engine.delete_evidence(session_id, evidence_id))

    def delete_user_data(self, account_id: str, user_id: str) -> Deleted:
        return self._run(self._engine.delete_user_data(account_id, user_id))

    def verify(self, session_id: Scope | str) -> Verification:
        return self._run(self._engine.verify(session_id))

    def check(self) -> None:
        self._run(self._engine.check())

    def flush(self, timeout_s: float = 5.0) -> bool:
        return self._run(self._engine.flush(timeout_s))

    def close(self, timeout_s: float = 5.0) -> None:
        """Store what was accepted, and let go of threads and files."""
        self._run(self._engine.close(timeout_s))
        self._engine.loop.close()


class SyncConstraints:
    """The methods of `Constraints`, blocking."""

    def __init__(self, engine: Engine) -> None:
        self._constraints = engine.constraints
        self._run = engine.loop.run

    def list(self, scope: Scope | str, *, kind: str | None = None) -> Sequence[Constraint]:
        return self._run(self._constraints.list(scope, kind=kind))

    def create(
        self,
        scope: Scope | str,
        text: str,
        *,
        derived: bool = False,
        priority: Priority | None = None,
        kind: str = "",
    ) -> Constraint:
        return self._run(
            self._constraints.create(scope, text, derived=derived, priority=priority, kind=kind)
        )

    def update(
        self,
        scope: Scope | str,
        constraint_id: str,
        *,
        text: str | None = None,
        priority: Priority | None = None,
        kind: str | None = None,
    ) -> Constraint:
        return self._run(
            self._constraints.update(scope, constraint_id, text=text, priority=priority, kind=kind)
        )

    def delete(self, scope: Scope | str, constraint_id: str) -> None:
        self._run(self._constraints.delete(scope, constraint_id))


class SyncBudgets:
    """The methods of `Budgets`, blocking."""

    def __init__(self, engine: Engine) -> None:
        self._budgets = engine.budgets
        self._run = engine.loop.run

    def get(self, scope: Scope | str) -> tuple[BudgetConfig, int]:
        return self._run(self._budgets.get(scope))

    def update(
        self, scope: Scope | str, budget: BudgetConfig, expected_version: int, *, actor: str
    ) -> int:
        return self._run(self._budgets.update(scope, budget, expected_version, actor=actor))
