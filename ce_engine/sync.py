"""The engine for synchronous callers: the same coroutines, run on the engine's own loop thread (C-12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ce_engine.config import RuntimeConfig
from ce_engine.engine import Engine
from ce_engine.schema.call import Answer, ModelCall, Prepared, TurnHandle, Usage
from ce_engine.schema.document import (
    Evidence,
    EvidenceLinks,
    EvidenceSource,
    Message,
    ModelUsage,
    Ref,
    ToolCall,
)
from ce_engine.schema.enums import EvidenceType, TurnStatus
from ce_engine.schema.events import Verification
from ce_engine.schema.report import Deleted, PrepareResult, PutResult
from ce_engine.schema.scope import Scope
from ce_engine.schema.trace import Trace


class SyncEngine:
    """The methods of `Engine`, blocking. They work under a running loop and in thread pools.

    Raises:
        SyncCallError: called from the engine's own thread (an event handler).
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._run = engine.loop.run

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
        self._run(
            self._engine.finalize(turn, status=status, usage=usage, answer=answer, refs=refs)
        )

    def prepare_turn(
        self,
        session: Scope | str,
        user_message: Message | Sequence[Message],
        runtime_config: RuntimeConfig | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        request_id: str = "",
    ) -> PrepareResult:
        return self._run(
            self._engine.prepare_turn(
                session, user_message, runtime_config, tools=tools, request_id=request_id
            )
        )

    def commit_assistant_message(
        self,
        session: Scope | str,
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
                session,
                assistant_message,
                refs,
                turn_id=turn_id,
                usage=usage,
                model=model,
                provider=provider,
            )
        )

    def commit_assistant_chunk(
        self, session: Scope | str, chunk: str, chunk_index: int, *, turn_id: str | None = None
    ) -> None:
        self._run(self._engine.commit_assistant_chunk(session, chunk, chunk_index, turn_id=turn_id))

    def finalize_assistant_message(
        self,
        session: Scope | str,
        refs: Sequence[Ref] | None = None,
        *,
        turn_id: str | None = None,
        usage: Usage | None = None,
        complete: bool = True,
    ) -> PutResult:
        return self._run(
            self._engine.finalize_assistant_message(
                session, refs, turn_id=turn_id, usage=usage, complete=complete
            )
        )

    def fail_turn(
        self, session: Scope | str, error_code: str, *, turn_id: str | None = None
    ) -> PutResult:
        return self._run(self._engine.fail_turn(session, error_code, turn_id=turn_id))

    def record_tool_call(
        self,
        scope: Scope,
        tool_call: ToolCall,
        result_evidence_ids: Sequence[str] | None = None,
        turn_id: str | None = None,
    ) -> None:
        self._run(self._engine.record_tool_call(scope, tool_call, result_evidence_ids, turn_id))

    def record_model_usage(
        self, scope: Scope, model_usage: ModelUsage, turn_id: str | None = None
    ) -> None:
        self._run(self._engine.record_model_usage(scope, model_usage, turn_id))

    def record_evidence(
        self,
        scope: Scope,
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
                scope, content, source, type, links=links, metadata=metadata, turn_id=turn_id
            )
        )

    def record_event(self, scope: Scope, kind: str, payload: Mapping[str, Any]) -> None:
        self._run(self._engine.record_event(scope, kind, payload))

    def trace(self, scope: Scope, ref: Ref | str) -> Trace:
        return self._run(self._engine.trace(scope, ref))

    def delete_session(self, scope: Scope) -> Deleted:
        return self._run(self._engine.delete_session(scope))

    def delete_evidence(self, scope: Scope, evidence_id: str) -> Deleted:
        return self._run(self._engine.delete_evidence(scope, evidence_id))

    def delete_user_data(self, account_id: str, user_id: str) -> Deleted:
        return self._run(self._engine.delete_user_data(account_id, user_id))

    def verify(self, scope: Scope) -> Verification:
        return self._run(self._engine.verify(scope))

    def check(self) -> None:
        self._run(self._engine.check())

    def flush(self, timeout_s: float = 5.0) -> bool:
        return self._run(self._engine.flush(timeout_s))

    def close(self) -> None:
        """Store what was accepted, and let go of threads and files."""
        self._run(self._engine.close())
        self._engine.loop.close()
