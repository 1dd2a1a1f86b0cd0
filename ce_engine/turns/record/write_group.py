"""One group of writes in the making, with its events; what is recorded passes here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ce_engine.config import HandoverConfig
from ce_engine.prepare.blocks.material import CollectedContext
from ce_engine.schema.call import ModelCall
from ce_engine.schema.copies import copied
from ce_engine.schema.degradation import Degradation
from ce_engine.schema.document import EvidenceLinks
from ce_engine.schema.enums import EvidenceType, ToolCallStatus
from ce_engine.schema.events import STORED, Event, EventType
from ce_engine.schema.rows import (
    AppendEvents,
    AppendMessages,
    AppendToolCalls,
    CreateSession,
    EvidenceRow,
    ForSession,
    LinkEvidence,
    MessageRow,
    PutEvidence,
    PutPlaceholders,
    PutTurn,
    ToolCallRow,
    TurnRow,
    Write,
)
from ce_engine.sessions.view import SessionView
from ce_engine.stores.row_rules import linked
from ce_engine.turns.record.persistence_boundary import Ingest


REDACTIONS_AN_EVENT = 100
ORIGINALS_AN_EVENT = 500


@dataclass(slots=True)
class RecordGroup:
    """One group of writes in the making, with its events. The view takes everything in at once."""

    view: SessionView
    ingest: Ingest
    writes: list[Write] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    rows: list[MessageRow] = field(default_factory=list)
    evidence_ids: list[str] = field(default_factory=list)
    call_places: dict[str, dict[str | None, int]] = field(default_factory=dict)
    """By messages that ask for tools where the first call with an id stands: one may ask for thousands."""
    heard: bool = False
    """Whether anybody listens: events that are not stored are made for listeners only."""
    passing: set[str] = field(default_factory=set)
    """Events for listeners only: what is stored of the turn says the same."""
    codes: list[str] = field(default_factory=list)
    handover: HandoverConfig = field(default_factory=HandoverConfig)
    may_sum_up: bool = True
    """Whether what is recorded may be a reason for a summary: not of who wants nothing remembered."""

    def redact(self, call: ModelCall) -> ModelCall:
        """The call with the host's names of its request, line and framework as they may be stored."""
        ingest, stored_call = self.ingest, copied(call)
        stored_call.request_id = ingest.id(call.request_id)
        stored_call.lane_key = ingest.id(call.lane)
        stored_call.framework = ingest.name(call.framework)
        stored_call.parent_turn_id = ingest.id(call.parent_turn_id)
        return stored_call

    def degrade(self, degradation: Degradation) -> None:
        """Tell of something that was to be had only in part: an event, and a line in a report (A-25)."""
        self.events.append(self.ingest.event(degradation.event_type, payload=degradation.payload))
        self.codes.append(degradation.code)

    def degradations(self) -> list[str]:
        """The codes for a report, each once, since they were last asked for."""
        for code in dict.fromkeys(self.ingest.degraded):
            self.degrade(Degradation(code))
        codes = list(dict.fromkeys(self.codes))
        self.ingest.degraded.clear()
        self.codes.clear()
        return codes

    def finish(self) -> list[Write]:
        """The writes in the order in which a store applies them; empty if there is nothing to write."""
        late = self.degradations()  # of no turn: the session's next report has them
        self.view.degraded = tuple(dict.fromkeys([*self.view.degraded, *late]))
        group = list(self.writes)
        if self.rows:
            group.insert(0, AppendMessages(self.rows))
        if self.view.redactor is not None and (learned := self.view.redactor.learned()):
            group.append(PutPlaceholders(learned))
        self._tell_redactions()
        self._tell_originals()
        lasting_events = (event for event in self.events if event.event_id not in self.passing)
        if stored_events := [event for event in lasting_events if event.event_type in STORED]:
            group.append(AppendEvents(stored_events))
        head = self.view.head
        if group and not self.view.created:
            group.insert(0, CreateSession(head.salt, head.key_id, head.ephemeral, head.created_at))
        elif group:
            group.insert(0, ForSession(head.key_id, head.epoch))
        return group

    def _tell_redactions(self) -> None:
        """With the audit switch on: which rules hit what, and never what was hit (A-19)."""
        redactions = list(self.ingest.redactions.values()) if self.ingest.policy.audit else []
        turn_id = next((row.turn_id for row in self.rows), None)
        for first in range(0, len(redactions), REDACTIONS_AN_EVENT):
            records = [r.model_dump() for r in redactions[first : first + REDACTIONS_AN_EVENT]]
            payload = {"redactions": records}
            event = self.ingest.event(EventType.REDACTED, payload=payload, turn_id=turn_id)
            self.events.append(event)

    def _tell_originals(self) -> None:
        """Which pieces have an original: one that is not there any more is missed then."""
        ids = list(self.ingest.originals)
        for first in range(0, len(ids), ORIGINALS_AN_EVENT):
            payload = {"ids": ids[first : first + ORIGINALS_AN_EVENT]}
            self.events.append(self.ingest.event(EventType.ORIGINALS_STORED, payload=payload))

    def begin(self, degraded: Iterable[str], collected: CollectedContext) -> None:
        """Tell of what a call has to do without, as an event each."""
        if self.heard:
            loaded = {"messages": len(self.view.log), "version": self.view.head.version}
            self.events.append(self.ingest.event(EventType.SESSION_LOADED, payload=loaded))
        for degradation in (*map(Degradation, degraded), *collected.degradations):
            self.degrade(degradation)
        for warning in collected.warnings:  # a code, or a code and what it is about
            code, _, about = warning.partition(": ")
            payload = Degradation(code, about).payload
            self.events.append(self.ingest.event(EventType.DEGRADED, payload=payload))

    def add_message(self, row: MessageRow) -> int:
        """Record a message and its event; return its entry."""
        self.rows.append(row)
        self.events.append(self.ingest.appended(row))
        message = row.message
        for position, request in enumerate(message.tool_calls or ()):
            key = tool_call_key(message.message_id or "", position)
            self._called(request.name, key, row.request_id, row.turn_id)
        return self.view.add_row(row)

    def _called(self, tool: str, tool_call_id: str, request_id: str, turn_id: str | None) -> None:
        self.events.append(
            self.ingest.event(
                EventType.TOOL_CALLED,
                payload={"tool": tool},
                request_id=request_id,
                turn_id=turn_id,
                tool_call_id=tool_call_id,
                meta={"tool_name": tool},
            )
        )

    def add_evidence(self, row: EvidenceRow, request_id: str, turn_id: str | None = None) -> str:
        """Record evidence once: the same content of the same source only gets another link (A-09)."""
        known_id = self._find_equal(row)
        if known_id is not None:
            self.ingest.untold(row.evidence.evidence_id)
            self.link(known_id, row.evidence.links, row.message_id)
            if row.message_id is not None:
                self.view.put_in_message(known_id, row.message_id)
            self._remember(request_id, known_id)
            return known_id
        row.turn_id = turn_id
        self.writes.append(PutEvidence(row))
        self.view.add_evidence(row)
        evidence = row.evidence
        self.evidence_ids.append(evidence.evidence_id)
        self.events.append(
            self.ingest.event(
                EventType.EVIDENCE_INGESTED,
                payload={"evidence_id": evidence.evidence_id, "type": str(evidence.type)},
                request_id=request_id,
                turn_id=turn_id,
                tool_call_id=evidence.links.tool_call_id,
                model_usage_id=evidence.links.model_usage_id,
            )
        )
        if evidence.type is EvidenceType.LLM_OUTPUT and row.message_id is not None:
            self.passing.add(self.events[-1].event_id)  # its message's event tells of it
        self._remember(request_id, evidence.evidence_id)
        return evidence.evidence_id

    def link(self, evidence_id: str, links: EvidenceLinks, message_id: str | None = None) -> None:
        """Link evidence that is there to one more call; a link that it has already is not written (A-09)."""
        write, there = LinkEvidence(evidence_id, links, message_id), self.view.evidence[evidence_id]
        after = linked(there, write)
        if after.evidence is not there.evidence or after.message_id != there.message_id:
            self.view.evidence[evidence_id] = after
            self.writes.append(write)

    def is_told(self, kind: str, key: str, fact: object) -> bool:
        """Whether this very fact was recorded under its id before, here: then nothing is to be written (B-07)."""
        last_fact, self.view.facts[kind, key] = self.view.facts.get((kind, key)), fact
        return last_fact == fact

    def _find_equal(self, row: EvidenceRow) -> str | None:
        """The same evidence, if the row's lane may read it; else one of the lane's own (decision 7)."""
        known_id = self.view.by_dedup.get(row.dedup_key)
        if known_id is None or not row.lane_key:
            return known_id
        there = self.view.evidence[known_id]
        if there.shared or there.lane_key in ("", row.lane_key):
            return known_id
        own = f"lane\x00{row.lane_key}\x00{row.dedup_key.hex()}"
        row.dedup_key = self.view.fingerprinter.mac("evidence", own)
        return self.view.by_dedup.get(row.dedup_key)

    def _remember(self, request_id: str, evidence_id: str) -> None:
        if request_id:
            self.view.request(request_id).evidence_ids.append(evidence_id)

    def add_tool_call(self, row: ToolCallRow, request_id: str) -> None:
        call = row.call
        fact = replace(
            row, call=call.model_copy(update={"called_at": ""})
        )  # a repetition has its own
        if self.is_told("call", call.tool_call_id, fact):
            return
        self.writes.append(AppendToolCalls([row]))
        if row.message_id is None or not row.ended:  # else the message that asked has told it
            self._called(call.tool, call.tool_call_id, request_id, row.turn_id)
        if not row.ended:
            return
        self.events.append(
            self.ingest.event(
                EventType.TOOL_CALL_COMPLETED,
                payload={"tool": call.tool, "status": str(call.status)},
                request_id=request_id,
                turn_id=row.turn_id,
                tool_call_id=call.tool_call_id,
                meta={"tool_name": call.tool, "duration_ms": call.duration_ms},
            )
        )
        failed = call.status is not ToolCallStatus.SUCCESS
        self.note_end(
            "tool_run",
            call.tool,
            is_failure=failed,
            request_id=request_id,
            turn_id=row.turn_id,
            tool_call_id=call.tool_call_id,
        )

    def note_end(
        self,
        kind: Literal["model_call", "tool_run"],
        name: str,
        *,
        is_failure: bool,
        **ids: Any,
    ) -> None:
        """Count failures in a row, and ask for a person at the configured one (B-06)."""
        count = self.view.streaks.note(kind, name, is_failure=is_failure)
        rules = self.handover
        if count and count == (rules.tool_failures if kind == "tool_run" else rules.model_failures):
            self.ask_for_person({"trigger": kind, "name": name, "failures": count}, **ids)

    def ask_for_person(self, payload: dict[str, Any], **ids: Any) -> None:
        """The `hitl` event of a run that is to be handed over; see `engine.handover`."""
        self.events.append(
            self.ingest.event(EventType.RECORDED, payload=payload, kind="hitl", **ids)
        )


def put_turn(row: TurnRow) -> PutTurn:
    """The write of a turn as it is now: the row goes on changing while a store writes it."""
    turn = copied(row)
    turn.attempts, turn.report = list(row.attempts), dict(row.report)
    return PutTurn(turn)


def tool_call_key(message_id: str, position: int) -> str:
    """Our id of a tool call that a message asks for: hosts reuse theirs (`call_0` every turn)."""
    return f"{message_id}:{position}"
