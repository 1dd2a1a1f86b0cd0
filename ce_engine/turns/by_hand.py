"""The engine for those who call their model themselves, without a framework (A-13, A-14)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ce_engine.config import RuntimeConfig
from ce_engine.errors import (
    EvidenceNotFoundError,
    SchemaValidationError,
    SessionNotFoundError,
    StoreUnavailableError,
    TurnAmbiguousError,
)
from ce_engine.prepare.compose.assemble_input import as_text, messages_and_blocks
from ce_engine.schema.call import (
    Answer,
    CallerRole,
    HostMessage,
    ModelCall,
    Prepared,
    TurnHandle,
    Usage,
)
from ce_engine.schema.document import Message, Ref
from ce_engine.schema.enums import Origin, Role, TurnStatus
from ce_engine.schema.report import AssembledInput, PrepareResult, PutResult
from ce_engine.schema.scope import Scope, as_scope
from ce_engine.sessions.view import OpenTurn
from ce_engine.turns.engine_base import EngineBase
from ce_engine.turns.record.answers import joined


ORIGINS = {
    Role.SYSTEM: Origin.SYSTEM,
    Role.USER: Origin.TASK,
    Role.ASSISTANT: Origin.ANSWER,
    Role.TOOL: Origin.TOOL_RESULT,
}


class ByHandMethods(EngineBase):
    """The turn of one question: `prepare_turn`, your own model call, `commit_assistant_message`.

    The engine keeps the conversation: give it what is new, send what it assembled. `session_id` is the
    id of a session of no account and no user, or a `Scope`. Without `turn_id` the methods mean the one
    open turn of the session; turns side by side are told apart by `report.turn_id`.
    """

    @abstractmethod
    def chunk(self, turn: TurnHandle, index: int, text: str) -> None:
        """Keep a piece of a streamed answer."""

    @abstractmethod
    async def finalize(
        self,
        turn: TurnHandle,
        *,
        status: TurnStatus = TurnStatus.COMMITTED,
        usage: Usage | None = None,
        answer: Answer | None = None,
        refs: Sequence[Ref] | None = None,
    ) -> None:
        """End a streamed answer."""

    @abstractmethod
    def _give_up(self, turn: TurnHandle) -> None:
        """End a turn of which its caller does not know."""

    async def prepare_turn(
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
        """Record what is new and assemble the input of the next model call, within the budget (A-13).

        Args:
            session_id: whose conversation; a new one begins with its first turn.
            user_message: the question; with a system prompt before it, if there is one; or the results
                of the tools that the last answer asked for (role `tool`, with its `tool_call_id`).
                A `message_id` of your own makes a repeated call append nothing twice.
            runtime_config: for this turn; else the engine's.
            tools: JSON schemas that you send along; they are counted.
            request_id: your own id of the request; turns of one tool loop share it.
            text: give the input as one text, too, for models that take no messages.
            role: who calls, in a team: map-reduce's `worker`, `planner` and `reducer` have no history and
                only a share of the context (E-05); an `agent` has all of it.
            want: sections that such a caller asks for, such as `knowledge__context`.

        Raises:
            SchemaValidationError: there is no message, or a result that answers no call.
            BudgetExceededError: with `fail="closed"`, what may never be left out is over the budget.
            StoreUnavailableError: with `fail="closed"`, what the call brings is not stored.
        """
        scope = as_scope(session_id)
        messages = [user_message] if isinstance(user_message, Message) else list(user_message)
        call = ModelCall(
            scope,
            [_host(message) for message in messages],
            request_id=request_id or self.ids.generate(),
            tools=tools,
            config=runtime_config,
            by_hand=True,
            role=role,
            want=frozenset(want),
        )
        if all(message.origin is Origin.SYSTEM for message in call.messages):
            raise SchemaValidationError(
                "prepare_turn needs the user's message, or the results of tools; found "
                f"{len(messages)} message(s), none of them from a user or a tool."
            )
        prepared = await self.prepare(call)
        try:
            result = await self._await_storage(scope)
        except BaseException:  # the caller is cancelled: nobody will end this turn
            self._give_up(prepared.turn)
            raise
        return PrepareResult(
            assembled_input=self._assembled(prepared, text=text),
            report=prepared.report,
            session_version=result.version,
        )

    def _assembled(self, prepared: Prepared, *, text: bool) -> AssembledInput:
        """The input as the engine's own plan has it, or as the app's assembler puts it together."""
        assembled_input = prepared.assembled
        if self.assembler is not None:
            messages, blocks = messages_and_blocks(prepared, self.estimator)
            assembled_input = self.assembler.assemble(messages, blocks, prepared.call.model_hint)
        return (
            assembled_input.model_copy(update={"text": as_text(assembled_input.parts)})
            if text
            else assembled_input
        )

    async def commit_assistant_message(
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
        """Record the model's answer and close the turn; an answer with `tool_calls` asks for results.

        `refs` say what the answer rests on; without them it refers to what went into its input.

        Raises:
            SchemaValidationError: the message is no assistant's.
            TurnAmbiguousError: no turn is open, or several are and `turn_id` does not say which.
            EvidenceNotFoundError: a ref leads nowhere.
        """
        if assistant_message.role is not Role.ASSISTANT:
            raise SchemaValidationError(
                f"an answer has the role 'assistant'; found {assistant_message.role.value!r}"
            )
        scope = as_scope(session_id)
        turn = self.open_turn(scope, turn_id)
        all_refs = [*(refs or ()), *(assistant_message.refs or ())]
        await self._check(scope, all_refs)
        answer = Answer(
            assistant_message,
            assistant_message.message_id,
            model=model,
            provider=provider,
            refs=all_refs or refs,
        )
        await self.commit(turn, answer, usage=usage)
        return await self._await_storage(scope)

    async def commit_assistant_chunk(
        self,
        session_id: Scope | str,
        chunk: str,
        chunk_index: int,
        *,
        turn_id: str | None = None,
    ) -> None:
        """Keep a piece of a streamed answer, in memory; pieces may come in any order (A-14).

        Raises:
            SchemaValidationError: the index is negative.
            TurnAmbiguousError: no turn is open, or several are and `turn_id` does not say which.
        """
        if chunk_index < 0:
            raise SchemaValidationError(f"chunk_index counts from 0; found {chunk_index}")
        self.chunk(self.open_turn(as_scope(session_id), turn_id), chunk_index, chunk)

    async def finalize_assistant_message(
        self,
        session_id: Scope | str,
        refs: Sequence[Ref] | None = None,
        *,
        turn_id: str | None = None,
        usage: Usage | None = None,
        complete: bool = True,
    ) -> PutResult:
        """Join the chunks, record the answer, close the turn; `complete=False` for a stream that broke off.

        Raises:
            TurnAmbiguousError: no turn is open, or several are and `turn_id` does not say which.
            EvidenceNotFoundError: a ref leads nowhere.
        """
        scope = as_scope(session_id)
        turn = self.open_turn(scope, turn_id)
        await self._check(scope, refs)
        status = TurnStatus.COMMITTED if complete else TurnStatus.INCOMPLETE
        await self.finalize(turn, status=status, usage=usage, refs=refs)
        return await self._await_storage(scope)

    async def fail_turn(
        self, session_id: Scope | str, error_code: str, *, turn_id: str | None = None
    ) -> PutResult:
        """Close the turn of a model call that failed; what had come of a stream is kept.

        Raises:
            TurnAmbiguousError: no turn is open, or several are and `turn_id` does not say which.
        """
        scope = as_scope(session_id)
        turn = self.open_turn(scope, turn_id)
        chunks = turn.state.chunks if isinstance(turn.state, OpenTurn) else {}
        await self.fail(turn, error_code, partial=joined(chunks))
        return await self._await_storage(scope)

    def open_turn(self, session_id: Scope | str, turn_id: str | None = None) -> TurnHandle:
        """The open turn of this id, or the one open turn of a session.

        Raises:
            TurnAmbiguousError: none is open, or several are.
        """
        scope = as_scope(session_id)
        turns = self._sessions.turns(scope)
        if turn_id is not None:
            turn = turns.get(turn_id)
            if turn is None:
                raise TurnAmbiguousError(
                    f"turn {turn_id!r} is not open in session {scope.session_id!r}: it was closed "
                    f"already, or was prepared by another process. Open here: {sorted(turns)}"
                )
            return turn.handle
        if len(turns) != 1:
            raise TurnAmbiguousError(
                f"{len(turns)} turns are open in session {scope.session_id!r}; expected one. "
                "Pass the turn_id of the report that prepare_turn() gave."
            )
        return next(iter(turns.values())).handle

    async def _check(self, scope: Scope, refs: Sequence[Ref] | None) -> None:
        if not refs:
            return
        evidence = await self._record(scope, lambda records: records.view.evidence)
        for ref in refs:
            if ref.evidence_id not in evidence:
                raise EvidenceNotFoundError(
                    f"session {scope.session_id!r} has no evidence {ref.evidence_id!r}. "
                    "Record it first (record_evidence, ingest), and refer to the id that gives."
                )

    async def _await_storage(self, scope: Scope) -> PutResult:
        """Wait, within the store's deadline, for what was recorded."""
        landed = await self._journal.settle(scope)
        view = self._sessions.peek(scope)
        version = view.head.version if view is not None else 0
        late = None if landed else StoreUnavailableError.code
        is_gone = view is not None and view.head.is_deleted
        gone = SessionNotFoundError.code if is_gone else None
        error = gone or self._journal.refusal(scope) or late
        return PutResult(success=error is None, version=version, error=error)


def _host(message: Message) -> HostMessage:
    live = message.model_copy(update={"message_id": None, "parent_id": None, "seq": None})
    failed = message.role is Role.TOOL and message.status == "error"
    return HostMessage(live, ORIGINS[message.role], message.message_id, error=failed)
