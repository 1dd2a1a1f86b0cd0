"""From a message, a block or a ref to its evidence, and from there to the call that made it (A-03)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, partial

from ce_engine.audit.noted_sources import NotedValues, noted_fields
from ce_engine.audit.places.message_places import (
    QUOTED,
    QUOTED_PART,
    SENT,
    SHORTENED,
    MessagePlaces,
)
from ce_engine.audit.places.whereabouts import evidence_whereabouts, fate_in, whereabouts
from ce_engine.errors import EvidenceNotFoundError, SelectorResolveError
from ce_engine.ports.store import Store
from ce_engine.runtime.loop import LoopThread
from ce_engine.runtime.workers import Workers
from ce_engine.schema.document import Evidence, Message, Ref, SessionDocument, ToolCall
from ce_engine.schema.enums import Role
from ce_engine.schema.events import Event, EventType
from ce_engine.schema.json_paths import LINEAR_S
from ce_engine.schema.message_forest import MessageForest
from ce_engine.schema.rows import HEAD_ONLY, MessageRow, TurnRow, archive_of
from ce_engine.schema.scope import Scope, as_scope, check_project
from ce_engine.schema.selectors import RefSelector
from ce_engine.schema.time_limits import Allowance
from ce_engine.schema.trace import EvidenceTrace, Trace
from ce_engine.sessions.view import entry_of
from ce_engine.text.overlap import Quotations
from ce_engine.turns.record.answers import MAX_REFS
from ce_engine.turns.report.archive import expanded


SETTLE_S = 1.0
"""How long a trace waits for what is not stored yet."""

AS_MESSAGES = frozenset({SENT, SHORTENED})
"""What becomes of a message that the model saw in its place."""

_SHOWN = (*AS_MESSAGES, QUOTED, QUOTED_PART)
"""What becomes of evidence that the model saw at all."""

READERS = 200
"""Calls that had a result as a message, whose answers are compared with it."""


class StoreResolver:
    """The default `ports.EvidenceResolver`: the evidence of one session, from its store.

    With `loop`, the work is done there, and with `workers` the search beside it: a large text or a slow
    pattern holds up neither the caller's loop nor the engine's.
    """

    def __init__(
        self,
        store: Store,
        scope: Scope,
        selectors: RefSelector | None = None,
        loop: LoopThread | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._store = store
        self._scope = scope
        self._selectors = selectors or RefSelector()
        self._loop = loop
        self._workers = workers

    async def resolve(self, evidence_id: str, selector: str | None = None) -> str:
        """The text of evidence, or of the part that the selector names.

        Raises:
            EvidenceNotFoundError: there is none with this id in the session.
            SelectorResolveError: the selector is malformed or matches nothing.
        """
        work = self._resolve(evidence_id, selector)
        return await (work if self._loop is None else self._loop.share(work))

    async def _resolve(self, evidence_id: str, selector: str | None) -> str:
        evidence = await self._store.get_evidence(self._scope, evidence_id)
        if evidence is None:
            raise _not_found(evidence_id, self._scope)
        content = evidence.content
        if not selector or self._workers is None:
            return self._selectors.extract(content, selector) if selector else content
        return await self._workers.run(lambda: self._selectors.extract(content, selector))


async def trace(
    store: Store,
    scope: Scope,
    ref: Ref | str,
    selectors: RefSelector | None = None,
    workers: Workers | None = None,
) -> Trace:
    """Where a ref, or all refs of a message or a block, lead; see `Trace`.

    Raises:
        EvidenceNotFoundError: the session of this user has no message, block or evidence of this id.
    """
    name = ref if isinstance(ref, str) else ref.evidence_id
    document = await store.get_session(scope)
    if document is None:
        raise _not_found(name, scope)
    kind, refs = _refs(document, ref) or (None, [])
    if kind is None:
        raise _not_found(name, scope)
    turns, events = await store.list_turns(scope), await store.list_events(scope)
    session = _Session(document, turns, events, selectors or RefSelector())

    def build_trace() -> Trace:
        evidence, seen_by = [session.way_back(ref) for ref in refs], list[str]()
        if kind == "message":
            seen_by = _seen_by(document.session.messages, name, turns)
            evidence += session.results_in_list(name)
            evidence.sort(key=lambda evidence_trace: name not in evidence_trace.quoted_by)
        elif kind == "evidence":
            for evidence_trace in evidence:
                session.add_readers(evidence_trace)
            seen_by = session.agents_of(name)
        return Trace(
            id=name,
            kind=kind,
            evidence=evidence,
            seen_by=seen_by,
            asked_for=session.asked_for(name) if kind == "message" else [],
            quotes_none=kind == "message" and session.quotes_none(name, evidence),
        )

    return build_trace() if workers is None else await workers.run(build_trace)


def _seen_by(messages: Sequence[Message], message_id: str, turns: Sequence[TurnRow]) -> list[str]:
    """The lanes that have a name, and whose turns were archived with the message in their list."""
    log = MessageForest()
    for message in messages:  # what recognises them is not needed: their places are
        log.add(entry_of(log, MessageRow(message, key=b"", loose_key=b"", origin="")))
    n = log.by_message_id(message_id)
    lanes: dict[str, None] = {}
    for turn in turns:
        line = archive_of(turn.report).get("line", [])
        if turn.lane and turn.lane not in lanes and n in expanded(log, line):
            lanes[turn.lane] = None
    return list(lanes)


class TraceMethods(ABC):
    """The part of the engine that answers where something came from."""

    store: Store
    loop: LoopThread
    workers: Workers
    selectors: RefSelector
    """What reads selectors; `engine.selectors.register(...)` adds a kind."""

    @abstractmethod
    async def _land_all(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything handed over is stored."""

    async def trace(self, session_id: Scope | str, ref: Ref | str) -> Trace:
        """Where a ref, or all refs of a message or a block (by its id), lead (A-03).

        Raises:
            EvidenceNotFoundError: the session of this user has no message, block or evidence of this id.
            ScopeViolationError: the session belongs to another project.
        """
        return await self.loop.share(self._trace(as_scope(session_id), ref))

    async def _trace(self, scope: Scope, ref: Ref | str) -> Trace:
        await self._land_all(SETTLE_S)
        state = await self.store.state(scope, after_seq=HEAD_ONLY, after_evidence=HEAD_ONLY)
        if state is not None:
            check_project(scope, state.head.project_id)
        return await trace(self.store, scope, ref, self.selectors, self.workers)

    def resolver(self, session_id: Scope | str) -> StoreResolver:
        """What finds the text of refs in a session."""
        scope = as_scope(session_id)
        return StoreResolver(self.store, scope, self.selectors, self.loop, self.workers)


def _refs(document: SessionDocument, ref: Ref | str) -> tuple[str, Sequence[Ref]] | None:
    """What the id is of, and the refs that it stands for; `None` if it is of nothing here."""
    if isinstance(ref, Ref):
        return ("evidence", [ref]) if ref.evidence_id in document.evidences else None
    if ref in document.evidences:
        return "evidence", [Ref(evidence_id=ref)]
    for message in document.session.messages:
        if message.message_id == ref:
            return "message", message.refs or []
    for block in document.context_blocks:
        if block.block_id == ref:
            return "block", block.refs
    return None


class _Session:
    """The links of one session, looked up."""

    def __init__(
        self,
        document: SessionDocument,
        turns: Sequence[TurnRow],
        events: Sequence[Event],
        selectors: RefSelector,
    ) -> None:
        session = document.session
        self._document = document
        self._turns = turns
        self._selectors, self._allowance = selectors, Allowance(LINEAR_S)
        self._quotations, self._noted = Quotations(document), NotedValues(document.evidences)
        self._messages = {m.message_id: m for m in session.messages if m.message_id}
        self._turn_of = {turn.answer_message_id: turn for turn in self._turns}
        self._stood_before: dict[str, Sequence[str]] = {}
        self._calls = {call.tool_call_id: call for call in session.tool_state.tool_calls}
        self._usages = {usage.model_usage_id: usage for usage in session.model_usage}
        self._ingested = {
            event.payload.get("evidence_id"): event
            for event in events
            if event.event_type == EventType.EVIDENCE_INGESTED
        }

    def way_back(self, ref: Ref) -> EvidenceTrace:
        evidence = self._document.evidences.get(ref.evidence_id)
        evidence_trace = EvidenceTrace(ref=ref, used_by=self._used_by(ref.evidence_id))
        evidence_trace.quoted_by = [
            name
            for name in evidence_trace.used_by
            if self._quotations.rests_on(
                self._messages[name], ref.evidence_id, partial(self._stood, name)
            )
        ]
        if evidence is None:
            return evidence_trace
        evidence_trace.evidence = evidence
        if ref.selector:
            try:
                content, selector = evidence.content, ref.selector
                evidence_trace.text = self._allowance.of_one(
                    lambda: self._selectors.extract(content, selector)
                )
            except SelectorResolveError as error:
                evidence_trace.problem = str(error)
        evidence_trace.tool_call = self._calls.get(evidence.links.tool_call_id or "")
        evidence_trace.model_usage = self._usages.get(_usage_id(evidence) or "")
        evidence_trace.asked_by = self._asked_by(evidence.links.tool_call_id)
        turn = self._turn(evidence, evidence_trace)
        if turn is not None:
            evidence_trace.turn_id, evidence_trace.turn = turn.turn_id, self._turns.index(turn) + 1
        return evidence_trace

    def results_in_list(self, message_id: str) -> list[EvidenceTrace]:
        """What was in an answer's call beside its refs: quoted ones first, then those that a note named, then the newest.

        That are the tool results that stood there as messages of the talk, and the sources that disagreed, whose
        values stood in a note. An answer refers to what was brought in, and to what its own request found. Where the app says what its
        answer rests on, there is nothing to add.
        """
        answer = self._messages[message_id]
        row = self._turn_of.get(message_id)
        if row is None or _is_cited(answer):
            return []
        ref_ids = {ref.evidence_id for ref in answer.refs or ()}
        stood = [name for name in self._stood(message_id) if name not in ref_ids]
        noted = {
            name: self._noted.of(name, fields)
            for name, fields in noted_fields(row.report).items()
            if name not in ref_ids
        }
        newest = dict.fromkeys([*noted, *reversed(stood)])
        quoted = [
            name
            for name in newest
            if self._quotes(answer, name, None if name in stood else noted[name])
        ]
        names = [*quoted, *(name for name in newest if name not in quoted)][:MAX_REFS]
        traces = [self.way_back(Ref(evidence_id=name)) for name in names]
        for evidence_trace in traces:
            evidence_trace.used_by.append(message_id)
            evidence_trace.quoted_by += (
                [message_id] if evidence_trace.ref.evidence_id in quoted else []
            )
        return traces

    def _stood(self, answer_id: str) -> Sequence[str]:
        """The evidence of the tool results that stood as messages in the last call of an answer."""
        if answer_id not in self._stood_before:
            row = self._turn_of.get(answer_id)
            turn_places = self._places.read_turn(row) if row is not None else None
            self._stood_before[answer_id] = [
                ref.evidence_id
                for begin, end, fate in (self._places.pieces(*turn_places) if turn_places else ())
                if fate in AS_MESSAGES
                for name in self._places.ids[begin:end]
                for ref in self._messages[name].refs or ()
            ]
        return self._stood_before[answer_id]

    def _quotes(self, answer: Message, name: str, texts: Sequence[str] | None = None) -> bool:
        """Whether an answer quotes what it does not refer to."""
        shown = [
            *(ref.evidence_id for ref in answer.refs or ()),
            *self._stood(answer.message_id or ""),
        ]
        quotations = self._quotations
        return quotations.quotes(answer, name, texts) and not quotations.is_outdone(
            answer, name, shown
        )

    def asked_for(self, message_id: str) -> list[ToolCall]:
        """The runs of the tools that a message asks for."""
        calls = self._calls.items()
        return [call for name, call in calls if name.rpartition(":")[0] == message_id]

    def quotes_none(self, message_id: str, evidence: Sequence[EvidenceTrace]) -> bool:
        """Whether an answer in words quotes nothing of what it was shown."""
        message = self._messages[message_id]
        is_answer = message.role is Role.ASSISTANT and bool(message.content and evidence)
        return is_answer and not any(
            message_id in evidence_trace.quoted_by for evidence_trace in evidence
        )

    def agents_of(self, evidence_id: str) -> list[str]:
        """The lanes with a name in whose calls evidence stood, in their order."""
        where = evidence_whereabouts([evidence_id], self._document, self._turns).get(evidence_id)
        if where is None:
            return []
        lanes = (
            turn.lane
            for number, turn in enumerate(self._turns, start=1)
            if fate_in(where, number) in _SHOWN
        )
        return [lane for lane in dict.fromkeys(lanes) if lane]

    def add_readers(self, evidence_trace: EvidenceTrace) -> None:
        """Add the answers in whose calls a tool result stood as a message, the first of them.

        And those that read its value in a note on sources that disagree.
        """
        self._add_lists(evidence_trace)
        self._add_told(evidence_trace)

    def _add_told(self, evidence_trace: EvidenceTrace) -> None:
        """Add the answers in whose calls a note named a value of it, the first of them."""
        name, count = evidence_trace.ref.evidence_id, 0
        for turn in self._turns:
            answer = self._messages.get(turn.answer_message_id or "")
            fields = noted_fields(turn.report).get(name)
            if answer is None or fields is None or count == READERS:
                continue
            answer_id = turn.answer_message_id or ""
            if answer_id in evidence_trace.used_by or _is_cited(answer):
                continue
            count += 1
            evidence_trace.used_by.append(answer_id)
            if self._quotations.quotes(answer, name, self._noted.of(name, fields)):
                evidence_trace.quoted_by.append(answer_id)

    def _add_lists(self, evidence_trace: EvidenceTrace) -> None:
        names = [name for name in evidence_trace.used_by if self._messages[name].role is Role.TOOL]
        for where in whereabouts(names, self._document, self._turns).values():
            for number in where.turns_as(AS_MESSAGES)[:READERS]:
                name = self._turns[number - 1].answer_message_id or ""
                answer = self._messages.get(name)
                if answer is None or name in evidence_trace.used_by or _is_cited(answer):
                    continue
                evidence_trace.used_by.append(name)
                if self._quotes(answer, evidence_trace.ref.evidence_id):
                    evidence_trace.quoted_by.append(name)

    @cached_property
    def _places(self) -> MessagePlaces:
        """Where the results of tools stand in the session."""
        results = [name for name, m in self._messages.items() if m.role is Role.TOOL and m.refs]
        return MessagePlaces(results, self._document, self._turns)

    def _used_by(self, evidence_id: str) -> list[str]:
        return [
            message_id
            for message_id, message in self._messages.items()
            if any(ref.evidence_id == evidence_id for ref in message.refs or ())
        ]

    def _asked_by(self, tool_call_id: str | None) -> Message | None:
        """The message that asked for the call: its id begins ours of the call."""
        message_id, _, position = (tool_call_id or "").rpartition(":")
        message = self._messages.get(message_id)
        tool_calls = message.tool_calls or () if message is not None else ()
        return message if position.isdecimal() and int(position) < len(tool_calls) else None

    def _turn(self, evidence: Evidence, evidence_trace: EvidenceTrace) -> TurnRow | None:
        if evidence_trace.asked_by is not None:
            asking = evidence_trace.asked_by.message_id
            return next((turn for turn in self._turns if turn.answer_message_id == asking), None)
        usage_id = _usage_id(evidence)
        event = self._ingested.get(evidence.evidence_id)
        turn_id = event.turn_id if event is not None else evidence.metadata.get("turn_id")
        for turn in self._turns:
            if turn.turn_id == turn_id or (usage_id and turn.model_usage_id == usage_id):
                return turn
        request = event.request_id if event is not None else ""
        own = [turn for turn in self._turns if request and turn.request_id == request]
        using = (turn for turn in own if turn.answer_message_id in evidence_trace.used_by)
        return next(using, own[0] if own else None)


def _is_cited(answer: Message) -> bool:
    """Whether the app says what an answer rests on."""
    return any(ref.cited for ref in answer.refs or ())


def _usage_id(evidence: Evidence) -> str | None:
    """The usage that it came of; who records the usage later links it then."""
    later = (link.get("model_usage_id") for link in evidence.metadata.get("links", ()))
    return evidence.links.model_usage_id or next(filter(None, later), None)


def _not_found(name: str, scope: Scope) -> EvidenceNotFoundError:
    return EvidenceNotFoundError(
        f"there is no evidence, message or block {name!r} in session {scope.session_id!r} of user "
        f"{scope.user_id!r}. `ce show` and `store.list_evidences(scope)` name what is there; another "
        "user's is not."
    )
