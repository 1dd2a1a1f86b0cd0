"""Takes in the list of a call: where each message of it sits in the session, and what of it is new."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ce_engine.prepare.message_groups import MessageItem
from ce_engine.prepare.reconcile.align import ReconcileFlags
from ce_engine.prepare.reconcile.earlier_lanes import EarlierLanes
from ce_engine.prepare.reconcile.match import IncomingMessage
from ce_engine.prepare.reconcile.reconcile import (
    NewEntry,
    Reconciliation,
    reconcile,
    settle,
    settled_places,
)
from ce_engine.runtime.processes import is_gone
from ce_engine.schema.call import ModelCall
from ce_engine.schema.degradation import MESSAGE_UNMAPPED, Degradation
from ce_engine.schema.enums import Role
from ce_engine.schema.events import EventType
from ce_engine.sessions.lane_cut import LaneCut
from ce_engine.sessions.view import ArchivedList, SessionView
from ce_engine.text.tokens.call_tokens import Counter
from ce_engine.turns.input.message_keys import incoming, version
from ce_engine.turns.record.answers import abandon
from ce_engine.turns.record.attachments import attachment_records, is_unreadable
from ce_engine.turns.record.linked_records import record_tool_message
from ce_engine.turns.record.write_group import RecordGroup


@dataclass(frozen=True, slots=True)
class TakenList:
    """What became of a list.

    Attributes:
        places: the entry of each message; `None` for the host's instructions.
        question: the entry that the answer hangs on.
        new: how many messages were recorded.
        lanes: earlier lines that may be brought in, newest first.
        items: of the messages that the list before began with, too, what they were to its call, by index.
        archived: the archive of the lane's last call, of the messages that this list begins with.
    """

    places: list[int | None]
    question: int | None = None
    new: int = 0
    lanes: Iterable[list[int]] = ()
    items: dict[int, MessageItem] = field(default_factory=dict)
    archived: ArchivedList | None = None


@dataclass(slots=True)
class ListIntake:
    """The intake of one call's list; a list that is resent is compared with the lane's last one.

    `mates` are the invocations of the call's batch: nothing of theirs is brought in.
    """

    call: ModelCall
    records: RecordGroup
    counter: Counter
    mates: frozenset[str] = frozenset()

    @property
    def view(self) -> SessionView:
        return self.records.view

    @property
    def lane_key(self) -> str:
        return self.call.lane_key or ""

    def take_in(self) -> TakenList:
        """Record what is new of the list; turns of the lane that a dead process left open are closed."""
        call, ingest = self.call, self.records.ingest
        lane, of = self.view.lane(self.lane_key), version(ingest)
        alike = lane.sent_list.compare(call.messages)
        start = lane.sent_list.start(alike.length, of)
        arrived = [*start.arrived, *incoming(call.messages[len(start.arrived) :], ingest)]
        reconciliation = reconcile(
            self.view.log,
            arrived,
            agent=ingest.name(call.speaker),
            lane_key=self.lane_key,
            prefix=start.places,
            line=start.line,
            flags=self._flags(arrived),
        )
        added = self._added(reconciliation, arrived)
        places, question = settled_places(reconciliation, added), settle(reconciliation.tip, added)
        LaneCut(self.view, self.lane_key, self.counter.name).check_below(places, start.places)
        items, archived = lane.begins_alike(places, start.places, self.counter.name)
        lane.sent_list.follow(call.messages, alike, places, arrived, reconciliation.line, of)
        lanes = self._earlier(reconciliation, question)
        self._abandon()
        self._tell(reconciliation)
        return TakenList(places, question, len(reconciliation.new), lanes, items, archived)

    def _added(
        self, reconciliation: Reconciliation, arrived: Sequence[IncomingMessage]
    ) -> list[int]:
        """Record the new messages; the entry that each of them became."""
        added: list[int] = []
        for new in reconciliation.new:
            added.append(self._append(new, settle(new.parent, added), arrived[new.index]))
        return added

    def _tell(self, reconciliation: Reconciliation) -> None:
        ingest, request_id = self.records.ingest, self.call.request_id
        for code in reconciliation.ambiguous:
            rule = {"rule": code}
            event = ingest.event(EventType.RECONCILE_AMBIGUOUS, payload=rule, request_id=request_id)
            self.records.events.append(event)

    def _earlier(self, reconciliation: Reconciliation, question: int | None) -> Iterable[list[int]]:
        """The lanes that may be brought in: none of another item of the call's batch."""
        call, lanes = self.call, reconciliation.bring
        if question is not None and not call.by_hand:  # there the same request is a retry
            self.view.note_step(question, call.request_id)
        elif question is not None:
            lanes = self._before(question)
        mates = self.view.lines_of(self.mates)
        if isinstance(lanes, EarlierLanes) and mates:
            lanes = replace(lanes, without=lanes.without | mates)
        return lanes

    def _before(self, question: int) -> EarlierLanes:
        """What came before a question by hand: it stands there alone, also where its list goes on with results."""
        log = self.view.log
        flying = frozenset(map(log.root, self.view.in_flight()))
        root = log.root(question)
        return EarlierLanes(log, before=root, lane_key=self.lane_key, without=flying)

    def _flags(self, arrived: Sequence[IncomingMessage]) -> ReconcileFlags:
        failed, new = frozenset(self.view.failed), self.call.new_conversation
        return ReconcileFlags(self.view.in_flight(), failed, self._retried(arrived), new)

    def _retried(self, arrived: Sequence[IncomingMessage]) -> int | None:
        """The question that this call repeats: a failed one, or the very same request's (B-07)."""
        view, call = self.view, self.call
        newest = view.log.newest_root(self.lane_key) if call.by_hand else None
        for question, turn in view.failed.items():
            if turn.row.turn_id == call.retry_of or question == newest:
                return question
        roots = view.log.roots_by_key(arrived[-1].key) if call.request_id and arrived else ()
        of = (call.request_id, self.lane_key)
        rows = ((n, view.rows[n]) for n in reversed(roots) if not view.log[n].aside)
        return next((n for n, row in rows if (row.request_id, row.lane_key) == of), None)

    def _append(self, new: NewEntry, parent: int | None, arrived: IncomingMessage) -> int:
        host, view, ingest = self.call.messages[new.index], self.view, self.records.ingest
        message = host.message
        own = self.call.speaker if message.role is Role.ASSISTANT else ""
        speaker = message.author.id if message.author else own or None
        row = ingest.message_row(
            host,
            message_id=ingest.ids.generate(),
            keys=(arrived.key, arrived.loose_key or b""),
            speaker=speaker,
            tokens=(self.counter.name, self.counter.host(host) - self.counter.media(host)),
        )
        stored_message, log = row.message, view.log
        if host.attachments:
            stored_message.attachments = attachment_records(host.attachments, ingest)
            if is_unreadable(host):
                self.records.degrade(Degradation(MESSAGE_UNMAPPED, stored_message.message_id or ""))
        stored_message.parent_id = None if parent is None else log[parent].message_id
        if new.replaces is not None or new.variant_of is not None:
            stored_message.replaces = None if new.replaces is None else log[new.replaces].message_id
            stored_message.variant_of = (
                None if new.variant_of is None else log[new.variant_of].message_id
            )
        row.aside, row.lane_key, row.request_id = new.aside, self.lane_key, self.call.request_id
        if message.role is Role.TOOL:
            caller = view.rows[parent] if parent is not None else None
            record_tool_message(self.records, row, caller)
        return self.records.add_message(row)

    def _abandon(self) -> None:
        view = self.view
        abandoned_turns = [
            t for t in view.stale_turns if t.lane == self.lane_key and is_gone(t.owner)
        ]
        if abandoned_turns:
            abandon(self.records, abandoned_turns)
            view.stale_turns = [turn for turn in view.stale_turns if turn not in abandoned_turns]
