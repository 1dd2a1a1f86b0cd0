"""What would be sent now, layer by layer, for those who may look; nothing is sent, injected or recorded (D-08)."""

from __future__ import annotations

import hashlib
from copy import deepcopy
from dataclasses import replace

from ce_engine.audit.trace import SETTLE_S
from ce_engine.errors import InspectForbiddenError
from ce_engine.ports.audit import Authorize
from ce_engine.schema.call import HostMessage, ModelCall, Prepared
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Origin, Role
from ce_engine.schema.events import EventType
from ce_engine.schema.ids import UuidV4Generator, chain_key
from ce_engine.schema.replay import Inspection
from ce_engine.schema.rows import HEAD_ONLY
from ce_engine.schema.scope import Scope, as_scope, check_project
from ce_engine.sessions.owner.permission import allows
from ce_engine.sessions.sent_list import SentList
from ce_engine.sessions.view import OpenTurn, SessionView
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.turns.engine_base import EngineBase, Messages
from ce_engine.turns.input.preparation import Preparation
from ce_engine.turns.record.write_group import RecordGroup
from ce_engine.turns.report.archive import Selection
from ce_engine.turns.report.sent_parts import ShownText


class InspectionMethods(EngineBase):
    """The part of the engine that shows what it would do."""

    authorize: Authorize

    async def inspect(
        self, call: ModelCall | tuple[Scope | str, Message | str], *, actor: str
    ) -> Inspection:
        """What would be sent for a call, by layer with its tokens: a preparation that changes nothing.

        Only with `observability.inspect` in the engine's own configuration, and for whom
        `authorize(actor, "inspect", scope)` allows it. The look is an event of the session, and so is a refused
        one; events have digests only.

        Args:
            call: what a host would send; or a session and the question that would be asked in it by hand.
            actor: who looks: by default the session's own user.

        Raises:
            InspectForbiddenError: it is switched off, or not for this actor.
        """
        return await self.loop.share(self._inspect(_as_call(call), actor))

    async def _inspect(self, call: ModelCall, actor: str) -> Inspection:
        is_on, scope = self.config.observability.inspect, call.scope
        if not (is_on and allows(self.authorize, actor, "inspect", scope)):
            await self._audit(call.scope, EventType.ACCESS_DENIED, actor, "")
            raise InspectForbiddenError(
                "inspecting needs observability.inspect = true in the engine's configuration, and an "
                "actor whom the engine's `authorize` allows to look: by default the session's own user"
            )
        await self._land_all(SETTLE_S)
        preparation, prepared, selection = await self._tried(call)
        input_hash = str(preparation.archive.get("hash", ""))
        await self._audit(scope, EventType.INSPECTED, actor, input_hash)
        shown_text = ShownText(preparation.view, preparation.call, selection, preparation.counter)
        return shown_text.layers(prepared)

    async def preview(self, call: ModelCall, *, messages: Messages | None = None) -> Prepared:
        """The plan that `prepare` would give now, for a host that asks first whether a call fits.

        Nothing is recorded, reserved or cut, nobody is asked for a summary, and there is no turn to
        close: the handle is to be thrown away. It reads the session anew, so ask where it matters.

        Args:
            call: the call.
            messages: gives its messages, as for `prepare`.
        """
        return await self.loop.share(self._preview(call, messages))

    async def _preview(self, call: ModelCall, messages: Messages | None) -> Prepared:
        if messages is not None:
            call.messages = messages()
        await self._settle(call.scope)
        _, prepared, _ = await self._tried(call)
        return prepared

    async def _tried(self, call: ModelCall) -> tuple[Preparation, Prepared, Selection]:
        """Prepare a call on a view that nobody else has."""
        call = replace(call)
        if (
            call.config is not None
        ):  # as recorded, perhaps; nothing is stored, so the engine's redaction does
            call.config = call.config.model_copy(update={"redaction": self.config.redaction})
        self._protect(call)
        config = call.config or self.config
        async with self._locks.hold(call.scope.key):
            view = await self._sessions.apart(call.scope)
            known_view = self._sessions.peek(call.scope)
            if known_view is not None:
                _take_after(view, known_view)
        session_context = await self._session_context(call, view)
        model = call.model_hint or config.model_hint
        counter = Counter(self.estimator, model, config.provider_hint)
        config, collected = await self._collector.gather(
            call, config, view, session_context, counter.text
        )
        records = self._records(view, call.scope, call.framework, config, call.tags)
        records.heard = False
        records.ingest.ids = UuidV4Generator()  # the next call gets ids as if nobody had looked
        preparation = Preparation(call, config, records, counter, self.pruner, collected=collected)
        return preparation, *await self._run_preparation(preparation)

    async def _audit(self, scope: Scope, kind: EventType, actor: str, input_hash: str) -> None:
        """Tell the session's log who looked; a session that is not there is not begun by it."""
        state = await self.store.state(scope, after_seq=HEAD_ONLY, after_evidence=HEAD_ONLY)
        if state is None:
            return
        check_project(scope, state.head.project_id)
        key = chain_key(self.store.secret)
        actor_mac = hashlib.blake2b(
            actor.encode(), key=key, digest_size=16, person=b"actor"
        ).hexdigest()
        payload = {
            "what": "inspect",
            "actor": actor_mac,
            **({"input": input_hash} if input_hash else {}),
        }

        def record(records: RecordGroup) -> None:
            records.ingest.ids = UuidV4Generator()
            records.events.append(records.ingest.event(kind, payload=payload))

        await self._record(scope, record, wait=True)


def _as_call(call: ModelCall | tuple[Scope | str, Message | str]) -> ModelCall:
    if isinstance(call, ModelCall):
        return call
    session, question = call
    message = Message(role=Role.USER, content=question) if isinstance(question, str) else question
    return ModelCall(as_scope(session), [HostMessage(message, Origin.TASK)], by_hand=True)


def _take_after(view: SessionView, known_view: SessionView) -> None:
    """Give a view copies of what the process has under way: nothing that is shared may change."""
    old = SessionView(known_view.scope, known_view.head, known_view.fingerprinter, None)
    old.turns = {name: _copied(turn) for name, turn in known_view.turns.items()}
    old.failed |= {n: _copied(turn) for n, turn in known_view.failed.items()}
    old.tool_runs |= known_view.tool_runs
    old.spending = replace(known_view.spending, causes=known_view.spending.causes.copy())
    for name, memory in known_view.requests.items():
        old.requests[name] = replace(
            memory, evidence_ids=[*memory.evidence_ids], documents=[*memory.documents]
        )
    for name, lane in known_view.lanes.items():
        view.lanes[name] = replace(
            lane,
            sent_list=SentList(),
            items={},
            archived=None,
            bodies=deepcopy(lane.bodies),
            engine_bodies=deepcopy(lane.engine_bodies),
        )
    view.adopt(old)


def _copied(turn: OpenTurn) -> OpenTurn:
    row = replace(turn.row, attempts=list(turn.row.attempts), report=dict(turn.row.report))
    return replace(turn, row=row)
