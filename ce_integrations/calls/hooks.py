"""What every adapter does at its framework's hooks: ask before a model call, record what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ce_engine import (
    Answer,
    Author,
    AuthorKind,
    CharBasedEstimator,
    HostMessage,
    Message,
    ModelCall,
    Prepared,
    Retrieval,
    Role,
    RuntimeConfig,
    ToolRun,
    TurnStatus,
    Usage,
    context_window,
    is_own_call,
)
from ce_integrations.calls.error_code import error_code
from ce_integrations.calls.helper_calls import is_aside
from ce_integrations.calls.open_turn import Governed, Turn, call_around
from ce_integrations.calls.requested_tools import RequestedTools
from ce_integrations.identity.agent_messages import host_message, with_task
from ce_integrations.identity.session import (
    CallIdentity,
    CallInfo,
    Choice,
    conversation_of,
    remember_answer,
    resolve,
    within_turn,
)
from ce_integrations.identity.team_role import current_role
from ce_integrations.mapping.composite_messages import mapped, natives_of
from ce_integrations.mapping.known_lists import KnownLists
from ce_integrations.mapping.known_messages import KnownMessages, Mapped
from ce_integrations.mapping.message_adapter import MessageAdapter
from ce_integrations.mapping.unmapped import paired, unmapped
from ce_integrations.wrapping.guard import Guard


if TYPE_CHECKING:
    from concurrent.futures import Future

    from ce_engine import ContextEngine

Native = TypeVar("Native")
Work = Callable[[], Coroutine[Any, Any, None]]


class Governing(Protocol):
    """Who attached hooks to an app."""

    def targets(self) -> Iterable[object]:
        """What is governed by them, as far as it lives."""


class Hooks(Generic[Native]):
    """The calls that an adapter wires its framework to; each with an async twin where it waits.

    All are guarded (a fault of ours never reaches the host), tagged with the adapter's name, and off
    after `uninstall()`: they ask when they are called, since copies of a target may outlive it.

    The seed's contract (A-23) has the same moments under other names: `on_before_model_call` and
    `on_user_message` are `before_model`, `on_after_model_call` is `after_model`, `on_tool_call_start`
    and `on_tool_call_end` are one `tool_call` with the run's result.
    """

    def __init__(
        self,
        adapter: MessageAdapter[Native],
        engine: ContextEngine,
        choice: Choice,
        guard: Guard,
        config: RuntimeConfig | None = None,
    ) -> None:
        self.adapter = adapter
        self.engine = engine
        self.choice = choice
        self.guard = guard
        guard.tell = lambda fault: engine.post_fault(fault.code, fault.where, adapter.name)
        self.config = config
        # For one text that the app put together, and for runs that nobody gave a session.
        self._silent = (config or engine.config).model_copy(update={"enable_share_context": False})
        self.active = True
        self.agents: set[str] = set()
        """Names of the target's agents, as far as the adapter knows them: what they say is no task."""
        self.wiring: Governing | None = None
        """Who attached these hooks; kept alive as long as the target holds them."""
        self.attached: object = None
        """What the adapter keeps of what it attached; alive no longer than these hooks."""
        self._known = KnownMessages(
            partial(mapped, adapter, to_schema=partial(host_message, adapter, self.agents)),
            adapter.parts,
            adapter.alike,
            self._unread,
        )
        self._lists = KnownLists(self._known, adapter.states)
        self._handed_over: set[Future[None]] = set()
        self.requested_tools = RequestedTools()
        """The calls of tools that models asked for, until a run claims them."""
        engine.caches.update((self._known, self._lists, self.requested_tools))

    def before_model(
        self, natives: list[Native], info: CallInfo
    ) -> tuple[list[Native], Turn | None]:
        """Give what is to be sent: the very same list object where nothing changes.

        The turn is `None` where the call is not governed; hand it on all the same.
        """
        with self.guard("before_model"):
            begun = self._begin(natives, info)
            if not isinstance(begun, ModelCall):
                return natives, begun
            messages = self._messages(natives, begun)
            prepared = self.engine.loop.run(self.engine.prepare(begun, messages=messages))
            return self._ready(natives, info, begun, prepared)
        return natives, None

    async def abefore_model(
        self, natives: list[Native], info: CallInfo
    ) -> tuple[list[Native], Turn | None]:
        with self.guard("before_model"):
            begun = self._begin(natives, info)
            if not isinstance(begun, ModelCall):
                return natives, begun
            prepared = await self.engine.prepare(begun, messages=self._messages(natives, begun))
            return self._ready(natives, info, begun, prepared)
        return natives, None

    def preview(self, natives: list[Native], info: CallInfo) -> list[Native]:
        """What would go out for a call now, for a framework that asks first whether it fits.

        Nothing is recorded, reserved or cut. It costs more than `before_model`: ask where it matters.
        """
        with self.guard("preview"):
            begun = self._begin(natives, info)
            if isinstance(begun, ModelCall):
                messages = self._messages(natives, begun)
                plan = self.engine.loop.run(self.engine.preview(begun, messages=messages))
                return natives if plan.unchanged else self._natives(natives, plan)
        return natives

    async def apreview(self, natives: list[Native], info: CallInfo) -> list[Native]:
        with self.guard("preview"):
            begun = self._begin(natives, info)
            if isinstance(begun, ModelCall):
                plan = await self.engine.preview(begun, messages=self._messages(natives, begun))
                return natives if plan.unchanged else self._natives(natives, plan)
        return natives

    def _begin(self, natives: list[Native], info: CallInfo) -> ModelCall | Turn | None:
        if not self.active or is_own_call():
            return None
        if is_aside():
            info.purpose = "helper"
        around = call_around()
        if around is not None and self._is_part(around, natives):
            return Turn(outer=around.turn)
        resolved, outer = resolve(info, self.choice, self._unassigned_messages(natives)), None
        if around is not None and around.turn is not None:
            identity = around.turn.resolved
            resolved = within_turn(resolved, identity)
            # A task that names somebody else was begun in the call, by a callback, and is none of it.
            if around.is_here or identity is None or resolved.scope.key == identity.scope.key:
                outer = around.turn.handle
        role, want = current_role(info.context, info.origin)
        return ModelCall(
            scope=resolved.scope,
            messages=(),
            lane_key=info.lane_key,
            request_id=info.request_id,
            tools=info.tools,
            response_format=info.response_format,
            model_hint=info.model,
            context_window=info.context_window or context_window(info.model or ""),
            # What a model asks another one on its own account is no part of the talk.
            purpose=info.purpose if outer is None else "helper",
            config=self._silent if info.opaque or resolved.ephemeral else self.config,
            framework=self.adapter.name,
            ephemeral=resolved.ephemeral,
            shared_history=info.shared_history,
            restore=outer is None and info.takes_history and self._asks_history(resolved),
            batch=info.batch,
            parent_turn_id=outer.turn_id if outer is not None else None,
            role=role,
            want=want,
            task_id=info.task_id,
            sub_task_id=info.sub_task_id,
        )

    def _asks_history(self, resolved: CallIdentity) -> bool:
        """Whether the app asked for what was said before, for something that holds a conversation."""
        config = self.config or self.engine.config
        is_asked = config.history == "session" if resolved.history is None else resolved.history
        return is_asked and self._converses()

    def _converses(self) -> bool:
        """Whether what we govern holds a conversation: our target, or one that shares a model with it."""
        targets = self.wiring.targets() if self.wiring is not None else ()
        return self.wiring is None or any(map(self.adapter.converses, targets))

    def _is_part(self, around: Governed, natives: list[Native]) -> bool:
        """Whether a call is a part of the one around it: of another framework, or handed on.

        Another framework's asks in tasks and threads of its own, and in its own words.
        """
        is_another_s = around.adapter != self.adapter.name
        return is_another_s or self._hands_on(around.turn, natives)

    def _hands_on(self, turn: Turn | None, natives: list[Native]) -> bool:
        """Whether a model (a fallback, a router) asks another one what it was asked itself."""
        messages = turn.prepared.call.messages if turn is not None and turn.prepared else ()
        if not messages or not natives:
            return False
        assert turn is not None
        if turn.sent_messages and turn.sent_messages[-1] is natives[-1]:
            return True
        question, now = messages[-1].message, self._known(natives[-1])[-1].message
        # With `placement="cache"` something may have been put before it.
        is_same = now.content.endswith(question.content) if question.content else not now.content
        return now.role is question.role and is_same

    def _messages(self, natives: list[Native], call: ModelCall) -> Callable[[], list[HostMessage]]:
        """Map those of a call, on the engine's thread: the app's own has other things to do."""
        # Whose names are agents' may be known later.
        now, line = list(natives), (call.scope.key, call.lane_key, len(self.agents))
        return lambda: paired(with_task(self._lists(now, line), self.agents))

    def _unassigned_messages(self, natives: list[Native]) -> Callable[[], list[HostMessage]]:
        """The same of a call of which nobody knows yet whose it is."""
        now = list(natives)
        return lambda: with_task([*chain.from_iterable(map(self._known, now))], self.agents)

    def _unread(self, native: Native, error: Exception) -> Mapped:
        """What stands for a message that cannot be mapped: the others are none the worse for it."""
        if not self.guard.swallows(error, "to_schema"):
            raise error
        return (unmapped(native),)

    def _ready(
        self, natives: list[Native], info: CallInfo, call: ModelCall, prepared: Prepared
    ) -> tuple[list[Native], Turn]:
        resolved = CallIdentity(call.scope, call.ephemeral, conversation_of(info))
        turn = Turn(prepared.turn, prepared, resolved, provider=info.provider, agent=info.agent)
        turn.tell = self.chunk
        turn.sent_messages = natives
        if not prepared.unchanged:
            with self.guard("to_native"):
                turn.sent_messages = natives = self._natives(natives, prepared)
        return natives, turn

    def _natives(self, natives: list[Native], prepared: Prepared) -> list[Native]:
        return natives_of(self.adapter, natives, prepared)

    def after_model(self, turn: Turn | None, native: Native, usage: Usage | None = None) -> None:
        """Record a whole answer."""
        with self.guard("after_model"):
            if (work := self._commit(turn, native, usage)) is not None:
                self.engine.loop.run(work())

    async def aafter_model(
        self, turn: Turn | None, native: Native, usage: Usage | None = None
    ) -> None:
        with self.guard("after_model"):
            if (work := self._commit(turn, native, usage)) is not None:
                await self._finished(work)

    def _commit(self, turn: Turn | None, native: Native, usage: Usage | None) -> Work | None:
        if turn is None or not turn.close():
            return None
        if turn.handle is not None:
            return partial(self._committed, turn, native, usage)
        used = turn.used(usage or self.adapter.map_model_usage(native))
        if turn.outer is not None and used is not None:
            turn.outer.inner.append(used)
        return None

    async def _committed(self, turn: Turn, native: Native, usage: Usage | None) -> None:
        """Map an answer and record it, on the engine's thread; one that cannot be has failed."""
        assert turn.handle is not None
        assert turn.prepared is not None
        try:
            with self.guard("usage"):  # without it an answer is no less one
                usage = usage or self.adapter.map_model_usage(native)
            answer = self._fill_names(turn, self.adapter.to_answer(native))
            self.requested_tools.note(turn.prepared.call, answer.message.tool_calls)
            if turn.resolved is not None:
                remember_answer(turn.resolved, answer, is_shared=bool(usage and usage.cached))
            used = self._usage(turn, answer, usage)
            await self.engine.commit(turn.handle, answer, usage=used)
        except Exception as error:
            await self.engine.fail(turn.handle, type(error).__name__)
            raise

    def chunk(self, turn: Turn | None, index: int, text: str) -> None:
        """Note a piece of a streamed answer, after the app has got it; in memory only."""
        with self.guard("chunk"):
            if turn is not None and turn.handle is not None:
                if turn.first is None and text:
                    turn.first = time.perf_counter()
                turn.chunks[index] = text
                self.engine.chunk(turn.handle, index, text)

    def finalize(self, turn: Turn | None, usage: Usage | None = None) -> None:
        """Record a streamed answer of which the host gives no whole: its chunks are joined."""
        with self.guard("finalize"):
            if (work := self._finalize(turn, usage)) is not None:
                self.engine.loop.run(work())

    async def afinalize(self, turn: Turn | None, usage: Usage | None = None) -> None:
        with self.guard("finalize"):
            if (work := self._finalize(turn, usage)) is not None:
                await self._finished(work)

    def _finalize(self, turn: Turn | None, usage: Usage | None) -> Work | None:
        if turn is None or not turn.close() or turn.handle is None:
            return None
        joined = "".join(turn.chunks[index] for index in sorted(turn.chunks))
        answer = self._fill_names(turn, Answer(Message(role=Role.ASSISTANT, content=joined)))
        if turn.resolved is not None:
            remember_answer(turn.resolved, answer)
        used = self._usage(turn, answer, usage)
        return partial(self.engine.finalize, turn.handle, usage=used, answer=answer)

    def failed(
        self, turn: Turn | None, error: BaseException, text: str = "", *, waits: bool = True
    ) -> None:
        """Close a turn without a whole answer, `text` being what came of it: failed, or incomplete.

        Cancellation, an interrupt and a generator that is closed wait for nothing: the record is
        handed over to the engine's thread.
        """
        with self.guard("failed", reaches_host=False):
            if (work := self._fail(turn, error, text)) is not None:
                self.engine.loop.run(work()) if waits else self._hand_over(work())

    async def afailed(self, turn: Turn | None, error: BaseException, text: str = "") -> None:
        with self.guard("failed", reaches_host=False):
            if (work := self._fail(turn, error, text)) is not None:
                await self._finished(work)

    def _fail(self, turn: Turn | None, error: BaseException, text: str) -> Work | None:
        if turn is None or not turn.close() or turn.handle is None:
            return None
        text = text or "".join(turn.heard)
        answer = self._fill_names(turn, Answer(Message(role=Role.ASSISTANT, content=text)))
        usage = self._usage(turn, answer, None) if text else None
        if isinstance(error, Exception) and not turn.left:
            code = error_code(error)
            return partial(self.engine.fail, turn.handle, code, partial=text, usage=usage)
        incomplete = TurnStatus.INCOMPLETE
        self._hand_over(self.engine.commit(turn.handle, answer, status=incomplete, usage=usage))
        return None

    def _fill_names(self, turn: Turn, answer: Answer) -> Answer:
        """An answer that names no model, provider or author has those of its call (B-16)."""
        if turn.agent and answer.message.author is None:
            answer.message.author = Author(kind=AuthorKind.AGENT, id=turn.agent)
        if not answer.model and turn.prepared is not None:
            answer.model = turn.prepared.call.model_hint or ""
        answer.provider = answer.provider or turn.provider
        return answer

    def _usage(self, turn: Turn, answer: Answer, usage: Usage | None) -> Usage:
        """What the call used: as the provider said, or those of all calls inside it, else estimated."""
        return turn.timed(turn.used(usage) or self._estimated(turn, answer))

    def _estimated(self, turn: Turn, answer: Answer) -> Usage:
        prompt = turn.prepared.report.token_used if turn.prepared is not None else 0
        calls = [[call.name, call.args] for call in answer.message.tool_calls or ()]
        text = answer.message.content + (json.dumps(calls, default=str) if calls else "")
        model = turn.prepared.call.model_hint if turn.prepared is not None else None
        completion = -1
        with self.guard("estimate"):  # a user's own may fail, and the answer is no less one
            completion = self.engine.estimator.estimate_text(text, model)
        if completion < 0:
            completion = CharBasedEstimator().estimate_text(text)
        return Usage(prompt, completion, prompt + completion, estimated=True)

    # Facts beside the model calls

    def tool_call(self, info: CallInfo, run: ToolRun) -> None:
        """Hand a tool's run over; never waits, so that it has no async twin."""
        self.post("tool_call", info, self.engine.post_tool_run, run)

    def retrieval(self, info: CallInfo, hit: Retrieval) -> None:
        """Hand a retrieval over; never waits, so that it has no async twin."""
        self.post("retrieval", info, self.engine.post_retrieval, hit)

    def post(self, where: str, info: CallInfo, post: Callable[..., None], fact: object) -> None:
        """Hand a fact of another kind to one of the engine's `post_` methods; never waits."""
        with self.guard(where):
            if self.active:
                resolved = resolve(info, self.choice)
                post(
                    resolved.scope,
                    fact,
                    request_id=info.request_id,
                    ephemeral=resolved.ephemeral,
                    framework=self.adapter.name,
                    lane_key=info.lane_key or "",
                    config=self.config,
                )

    # What was handed over

    async def _finished(self, work: Work) -> None:
        """Wait for work on the engine's thread, which goes on where the caller is cancelled."""
        await self.engine.loop.outcome(self._hand_over(work()))

    def _hand_over(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        future = self.engine.loop.submit(work)
        self._handed_over.add(future)
        future.add_done_callback(self._handed_over.discard)
        return future

    def settle(self, timeout_s: float) -> bool:
        """Wait for what was handed over; false if it is not done in time."""
        end = time.monotonic() + timeout_s
        for future in list(self._handed_over):
            with self.guard("hand_over"):
                try:
                    future.result(max(0.0, end - time.monotonic()))
                except TimeoutError:
                    return False
        return True
