"""One session in memory, and how writes change it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from ce_engine.schema.document import (
    ContextBlock,
    Meta,
    ModelUsage,
    Session,
    SessionDocument,
    Summary,
    Task,
)
from ce_engine.schema.events import ContentCheck, Event
from ce_engine.schema.ids import ChainKeys, Fingerprinter, chain_keys, session_key
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import (
    AppendEvents,
    AppendMessages,
    AppendModelUsage,
    AppendToolCalls,
    CreateSession,
    CutMark,
    DeleteEvidence,
    DeleteSession,
    EventChain,
    EvidenceRow,
    ForSession,
    LinkEvidence,
    MessageRow,
    Placeholder,
    PutBlocks,
    PutCut,
    PutEvidence,
    PutPlaceholders,
    PutSummary,
    PutTurn,
    ReplaceDocument,
    SessionHead,
    SummaryRow,
    ToolCallRow,
    TurnRow,
    UpsertTasks,
    Write,
)
from ce_engine.schema.scope import Scope
from ce_engine.stores import row_rules
from ce_engine.stores.codec import fresh, fresh_data
from ce_engine.stores.erasing import Erasing


@dataclass(slots=True)
class StoredSession:
    """One session; dicts are in order of first arrival."""

    head: SessionHead
    made_at: str = ""
    """When the store first made it, whatever its document says; a deletion changes nothing of it."""
    last_evidence: int = 0
    last_accessed_at: str = ""
    access_count: int = 0
    summary: Summary | None = None
    meta: Meta = field(default_factory=Meta)
    frameworks: set[str] = field(default_factory=set)
    messages: list[MessageRow] = field(default_factory=list)
    evidence: dict[str, EvidenceRow] = field(default_factory=dict)
    blocks: dict[str, ContextBlock] = field(default_factory=dict)
    calls: dict[str, ToolCallRow] = field(default_factory=dict)
    usages: dict[str, ModelUsage] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    turns: dict[str, TurnRow] = field(default_factory=dict)
    cuts: dict[tuple[str, str, str], CutMark] = field(default_factory=dict)
    summaries: dict[str, SummaryRow] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    placeholders: dict[tuple[str, bytes], Placeholder] = field(default_factory=dict)
    forged: str = ""
    """Where a store that keeps MACs found first that the session is not what it wrote."""
    older: int = 0
    """Up to this version a release wrote it that kept no MACs."""

    @property
    def has_content(self) -> bool:
        """Whether anything was recorded in it."""
        rows = (self.messages, self.evidence, self.calls, self.usages, self.turns, self.tasks)
        return any((*rows, self.blocks, self.summaries, self.summary, self.cuts, self.placeholders))

    def draft(self) -> StoredSession:
        """A copy to write to; what it holds is never changed in place."""
        new = copy(self)
        new.head = copy(self.head)
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, dict | list | set):
                setattr(new, name, value.copy())
        return new

    def emptied(self, scope: Scope) -> StoredSession:
        """What stays when the session is deleted: numbers, the envelopes of its events, and what was found of them."""
        head = replace(self.head, salt=b"", key_id="", ephemeral=False)
        emptied_events = [row_rules.emptied(event, scope) for event in self.events]
        events = [
            old if old == new else new for old, new in zip(self.events, emptied_events, strict=True)
        ]
        left = StoredSession(head, made_at=self.made_at, last_evidence=self.last_evidence)
        left.events, left.forged, left.older = events, self.forged, self.older
        return left

    def with_content(self, row: EvidenceRow) -> EvidenceRow:
        """A copy of a row; content that a message has is filled in."""
        evidence = fresh(row.evidence)
        if row.message_id is not None:
            contents = (
                r.message.content for r in self.messages if r.message.message_id == row.message_id
            )
            evidence.content = next(contents, "")
        return replace(row, evidence=evidence)


def copy_message(row: MessageRow) -> MessageRow:
    """A row that shares nothing with this one."""
    return replace(row, message=fresh(row.message))


def copy_turn(row: TurnRow) -> TurnRow:
    """A row that shares nothing with this one."""
    return replace(row, attempts=fresh_data(row.attempts), report=fresh_data(row.report))


def copy_summary(row: SummaryRow) -> SummaryRow:
    """A row that shares nothing with this one."""
    return replace(row, summary=fresh(row.summary), tips=list(row.tips))


def put_whole(
    scope: Scope, old: StoredSession | None, session: StoredSession, expected_version: int
) -> tuple[StoredSession, PutResult]:
    """The session of another store in the place of none, or of one of this version.

    Raises:
        VersionConflictError: what is, or was, there has another one.
    """
    row_rules.check_place(scope, 0 if old is None else old.head.version, expected_version)
    return session, PutResult(success=True, version=session.head.version)


def changed(
    scope: Scope,
    old: StoredSession | None,
    writes: Sequence[Write],
    expected_version: int | None,
    now: str,
    secret: Callable[[], bytes],
) -> tuple[StoredSession | None, PutResult]:
    """The session after a group of writes, and the answer to it; `old` stays as it was.

    Raises:
        VersionConflictError: `expected_version` is not the version, or the key is another one.
        SessionNotFoundError: there is no session to patch or delete, or it was deleted meanwhile.
    """
    row_rules.check_kinds(writes)
    version = 0 if old is None or old.head.is_deleted else old.head.version
    row_rules.check_version(scope, expected_version, version)
    if not writes:
        return old, PutResult(success=True, version=version)
    change = _begin(scope, old, writes, now, secret())
    for write in writes:
        change.run(scope, write)
    state = change.state
    removed, cleared = change.removed, change.cleared
    done = PutResult(success=True, version=state.head.version, removed=removed, cleared=cleared)
    return state, done


def _begin(
    scope: Scope, old: StoredSession | None, writes: Sequence[Write], now: str, secret: bytes
) -> SessionChange:
    creation = next((write for write in writes if isinstance(write, CreateSession)), None)
    new = old is None or old.head.is_deleted
    if old is None:
        state = StoredSession(SessionHead())
    else:  # whatever somebody put to a deleted session since, no life begins with it
        state = old.emptied(scope) if new else old.draft()
    if new:
        _begin_life(scope, state, creation, now, secret)
    row_rules.check_key(scope, writes, state.head.key_id, state.head.epoch)
    state.head.version += 1
    state.head.updated_at = state.last_accessed_at = now
    state.access_count += 1
    keys = chain_keys(secret, scope.key)
    salt = state.head.salt
    return SessionChange(
        state,
        keys,
        lambda: session_key(secret, salt, scope),
        is_maker=new and creation is None,
        now=now,
    )


def _begin_life(
    scope: Scope, state: StoredSession, creation: CreateSession | None, now: str, secret: bytes
) -> None:
    """Make a session of a head that is new, or that a deleted session left behind."""
    if creation is None:
        salt = os.urandom(16)
        creation = CreateSession(salt, Fingerprinter(secret, salt, scope).key_id)
    head = state.head
    head.salt, head.key_id, head.ephemeral = creation.salt, creation.key_id, creation.ephemeral
    head.created_at, head.project_id = creation.at or now, scope.project_id
    state.made_at = state.made_at or now


@dataclass(slots=True)
class SessionChange:
    """One group on its way into a session's draft."""

    state: StoredSession
    keys: ChainKeys
    session_key: Callable[[], bytes]
    is_maker: bool
    """The group itself made the session, without being told to."""
    now: str
    removed: dict[str, int] = field(default_factory=dict)
    cleared: list[str] = field(default_factory=list)

    def run(self, scope: Scope, write: Write) -> None:
        match write:
            case ReplaceDocument(document, fields):
                row_rules.check_there(scope, self.is_maker and fields is not None)
                self._replace(document, fields)
            case DeleteSession(event):
                row_rules.check_there(scope, self.is_maker)
                self._delete(scope)
                self.append_events(AppendEvents([event]))
            case DeleteEvidence():
                row_rules.check_there(scope, self.is_maker)
                if self._delete_evidence(write):
                    self._empty_events(scope, write.events)
                    self.append_events(AppendEvents([write.event]))
            case PutSummary():
                row_rules.check_epoch(scope, write, self.state.head.epoch)
                self._put_summary(write)
            case CreateSession() | ForSession():
                pass
            case _:
                _HANDLERS[type(write)](self, write)

    def append_messages(self, write: AppendMessages) -> None:
        state = self.state
        known_ids = {row.message.message_id for row in state.messages} - {None}
        rows = row_rules.numbered(
            write.rows, {str(name) for name in known_ids}, state.head.last_seq
        )
        state.messages += [copy_message(row) for row in rows]
        state.frameworks |= {row.framework for row in rows}
        state.head.last_seq += len(rows)

    def put_evidence(self, write: PutEvidence) -> None:
        state, row = self.state, write.row
        if row.evidence.evidence_id in state.evidence:
            return
        state.last_evidence += 1
        self._keep_evidence(replace(row, seq=state.last_evidence))

    def _keep_evidence(self, row: EvidenceRow) -> None:
        evidence = fresh(row.evidence)
        if row.message_id is not None:
            evidence.content = ""
        self.state.evidence[evidence.evidence_id] = replace(row, evidence=evidence)

    def link_evidence(self, write: LinkEvidence) -> None:
        row = self.state.evidence.get(write.evidence_id)
        if row is not None:
            self._keep_evidence(row_rules.linked(row, write))

    def put_blocks(self, write: PutBlocks) -> None:
        self.state.blocks |= {block.block_id: fresh(block) for block in write.blocks}

    def append_tool_calls(self, write: AppendToolCalls) -> None:
        calls = self.state.calls
        for row in write.rows:
            name = row.call.tool_call_id
            merged = row_rules.merged_call(calls[name], row) if name in calls else row
            calls[name] = replace(merged, call=fresh(merged.call))

    def append_model_usage(self, write: AppendModelUsage) -> None:
        for usage in write.usages:
            self.state.usages.setdefault(usage.model_usage_id, fresh(usage))

    def upsert_tasks(self, write: UpsertTasks) -> None:
        self.state.tasks |= {task.task_id: fresh(task) for task in write.tasks}

    def put_turn(self, write: PutTurn) -> None:
        turn_id = write.turn.turn_id
        if row_rules.may_become(self.state.turns.get(turn_id), write.turn):
            self.state.turns[turn_id] = copy_turn(write.turn)
        self.state.frameworks.add(write.turn.framework)

    def put_cut(self, write: PutCut) -> None:
        mark = write.mark
        if write.replaces is not None:
            self.state.cuts.pop((mark.lane_key, mark.kind, write.replaces), None)
        self.state.cuts[mark.lane_key, mark.kind, mark.anchor_message_id] = replace(mark)

    def _put_summary(self, write: PutSummary) -> None:
        summaries = self.state.summaries
        for name in write.replaces:
            summaries.pop(name, None)
        summaries[write.row.anchor_message_id] = copy_summary(write.row)

    def append_events(self, write: AppendEvents) -> None:
        head, events = self.state.head, self.state.events
        known_ids = {event.event_id for event in events}
        last, end = head.last_event_seq, head.chain_head
        new = row_rules.chained(write.events, known_ids, last, end, self.keys, self.session_key)
        events += map(fresh, new)
        if new:
            head.last_event_seq, head.chain_head = len(events), new[-1].hash

    def put_placeholders(self, write: PutPlaceholders) -> None:
        for item in write.items:
            self.state.placeholders.setdefault((item.label, item.mac), item)

    def _delete(self, scope: Scope) -> None:
        state = self.state
        things = (state.messages, state.evidence, state.calls, state.turns)
        self.removed = dict(zip(row_rules.REMOVED, map(len, things), strict=True))
        self.state = state.emptied(scope)
        self.state.head.epoch += 1
        self.state.forged, self.state.older = "", 0  # which is said of what is gone

    def _delete_evidence(self, write: DeleteEvidence) -> bool:
        evidence_id = write.evidence_id
        state, row = self.state, self.state.evidence.get(evidence_id)
        if row is None:
            return False
        evidence = state.with_content(row).evidence
        emptied_evidence = row_rules.without_content(evidence, self.now)
        if emptied_evidence is None:
            return False
        state.evidence[evidence_id] = replace(row, evidence=emptied_evidence)
        if row.message_id is not None:
            state.messages = [
                _withheld(m) if m.message.message_id == row.message_id else m
                for m in state.messages
            ]
        left = row_rules.not_resting_on(state.blocks.values(), evidence_id)
        state.blocks = {block.block_id: block for block in left}
        self.removed = {"evidences": 1 + self._delete_summaries()}
        for text in dict.fromkeys([evidence.content, *write.texts] * write.everywhere):
            self._erase(Erasing.of(text, self.now))
        state.head.epoch += 1
        return True

    def _erase(self, erasing: Erasing) -> None:
        """Take a deleted text out of all that is left."""
        state = self.state
        rows = {new.message.seq: new for new in erasing.changed(state.messages, erasing.message)}
        state.messages = [rows.get(row.message.seq, row) for row in state.messages]
        for new in erasing.changed(state.evidence.values(), erasing.evidence):
            state.evidence[new.evidence.evidence_id] = new
        for block in erasing.changed(state.blocks.values(), erasing.block):
            state.blocks[block.block_id] = block
        for call in erasing.changed(state.calls.values(), erasing.tool_call):
            state.calls[call.call.tool_call_id] = call
        for task in erasing.changed(state.tasks.values(), erasing.task):
            state.tasks[task.task_id] = task
        for usage in erasing.changed(state.usages.values(), erasing.usage):
            state.usages[usage.model_usage_id] = usage
        for turn in erasing.changed(state.turns.values(), erasing.turn):
            state.turns[turn.turn_id] = turn
        self.cleared = list(dict.fromkeys([*self.cleared, *erasing.cleared]))

    def _empty_events(self, scope: Scope, numbers: Collection[int]) -> None:
        self.state.events = [
            row_rules.emptied(event, scope) if event.seq in numbers else event
            for event in self.state.events
        ]

    def _delete_summaries(self) -> int:
        state, count = self.state, 0
        state.summary, state.summaries = None, {}
        for name, row in state.evidence.items():
            emptied_evidence = row_rules.without_content(row.evidence, self.now)
            if row_rules.is_summary(row.evidence) and emptied_evidence is not None:
                state.evidence[name] = replace(row, evidence=emptied_evidence)
                count += 1
        return count

    def _replace(self, document: SessionDocument, fields: frozenset[str] | None) -> None:
        state, session = self.state, document.session
        names = frozenset(Session.model_fields) if fields is None else fields
        state.head.epoch += 1
        if (
            fields is None
        ):  # before the messages: their old contents tell which evidence is unchanged
            self._replace_rest(document)
        if names & row_rules.SUMMED_UP:
            state.summaries = {}
        if "messages" in names:
            self._replace_messages(session)
        if "summary" in names:
            state.summary = fresh(session.summary) if session.summary else None
        if "task_state" in names:
            state.tasks = {t.task_id: fresh(t) for t in session.task_state.todo_list.tasks}
        if "tool_state" in names:
            self._replace_calls(session)
        if "model_usage" in names:
            state.usages = {usage.model_usage_id: fresh(usage) for usage in session.model_usage}

    def _replace_messages(self, session: Session) -> None:
        state = self.state
        rows_by_id = {str(row.message.message_id): row for row in state.messages}
        rows, state.head.last_seq = row_rules.replaced(
            session.messages, rows_by_id, state.head.last_seq
        )
        state.messages = [copy_message(row) for row in rows]

    def _replace_calls(self, session: Session) -> None:
        rows_by_id = self.state.calls
        self.state.calls = {
            call.tool_call_id: replace(
                rows_by_id.get(call.tool_call_id, ToolCallRow(call)), call=fresh(call)
            )
            for call in session.tool_state.tool_calls
        }

    def _replace_rest(self, document: SessionDocument) -> None:
        state = self.state
        rows_by_id = {name: state.with_content(row) for name, row in state.evidence.items()}
        state.evidence = {}
        for row in row_rules.kept_evidence(
            document.evidences.values(), rows_by_id, document.session.messages
        ):
            self._keep_evidence(row)
            state.last_evidence = max(state.last_evidence, row.seq)
        state.blocks = {block.block_id: fresh(block) for block in document.context_blocks}
        state.meta = fresh(document.meta) if document.meta else Meta()
        state.head.created_at = state.meta.created_at or state.head.created_at
        state.head.updated_at = state.meta.updated_at or state.head.updated_at


def _withheld(row: MessageRow) -> MessageRow:
    message = row.message.model_copy(update={"content": "", "attachments": None})
    return replace(row, message=message, withheld=True)


_HANDLERS: dict[type, Callable[[SessionChange, Any], None]] = {
    AppendMessages: SessionChange.append_messages,
    PutEvidence: SessionChange.put_evidence,
    LinkEvidence: SessionChange.link_evidence,
    PutBlocks: SessionChange.put_blocks,
    AppendToolCalls: SessionChange.append_tool_calls,
    AppendModelUsage: SessionChange.append_model_usage,
    UpsertTasks: SessionChange.upsert_tasks,
    PutTurn: SessionChange.put_turn,
    PutCut: SessionChange.put_cut,
    AppendEvents: SessionChange.append_events,
    PutPlaceholders: SessionChange.put_placeholders,
}


@dataclass(frozen=True, slots=True)
class CheckedSession:
    """A session as one reading found it, and what the MACs say of it."""

    session: StoredSession
    content: ContentCheck

    @property
    def chain(self) -> EventChain:
        """Its log."""
        return EventChain(self.session.head, self.session.events)
