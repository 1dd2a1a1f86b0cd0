"""What the engine remembers of a session between calls, so that a call costs what is new (decision 3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from ce_engine.config import RuntimeConfig
from ce_engine.ports.redaction import SessionRedactor
from ce_engine.prepare.choose.anchored_context import Pins
from ce_engine.prepare.message_groups import BelowCut, MessageItem
from ce_engine.runtime.bounded_dict import BoundedDict as BoundedDict
from ce_engine.schema.call import TurnHandle
from ce_engine.schema.document import ContextBlock, Task, ToolCall, may_be_found
from ce_engine.schema.ids import Fingerprinter
from ce_engine.schema.message_forest import Entry, MessageForest
from ce_engine.schema.report import PutResult, Report
from ce_engine.schema.rows import (
    CutMark,
    EvidenceRow,
    MessageRow,
    SessionHead,
    SessionState,
    SummaryRow,
    TurnRow,
)
from ce_engine.schema.scope import Scope
from ce_engine.sessions.bodies import LaneBodies
from ce_engine.sessions.failure_streaks import FailureStreaks
from ce_engine.sessions.invocation import RequestMemory
from ce_engine.sessions.search import SessionIndex
from ce_engine.sessions.sent_list import SentList
from ce_engine.sessions.spending import Spending
from ce_engine.text.redaction.redact import BoundRedactor
from ce_engine.text.tokens import Calibration


VIEW_BYTES, ENTRY_BYTES = 14_000, 3_000
"""What a view costs, and an entry beside its text: row, entry, indexes (measured with tracemalloc)."""

TURN_BYTES = 8_000
"""What a turn costs that is under way, beside what was streamed of its answer: its row and its report."""

MAX_REMEMBERED = 64
"""Lanes, failed turns and requests that a view remembers."""

MAX_RUNS = 1000

SEVERAL = -1
"""In place of a root: an invocation that asked its model in several lines of conversation."""

_BYTES: Callable[[RequestMemory], int] = attrgetter("bytes")

Batches = BoundedDict[str, set[str]]
"""Of each of an app's batches the invocations that are its items."""

Facts = BoundedDict[tuple[str, str], object]
"""What was recorded here, by kind and id."""


@dataclass(frozen=True, slots=True)
class ArchivedList:
    """The archive of the first `count` messages of a list; `by` are counter and redactor."""

    count: int
    by: tuple[str, str]
    archive: Mapping[str, Any]


@dataclass(slots=True)
class LaneMemory:
    """The last bodies of a lane, and the list that the host sent."""

    bodies: LaneBodies = field(default_factory=LaneBodies)
    engine_bodies: LaneBodies = field(default_factory=LaneBodies)
    """The bodies of calls that leave their history to us: they come between others, and end no cached prefix of theirs."""
    sent_list: SentList = field(default_factory=SentList)
    items: dict[int, MessageItem] = field(default_factory=dict)
    """Of the messages of that list that are stored, by index, what they were to the call."""
    counted_by: str = ""
    """The counter of the items."""
    archived: ArchivedList | None = None
    """The archive of that list, if it has all of it."""
    calibration: Calibration = field(default_factory=Calibration)
    below: BelowCut | None = None
    """What the lane's cut leaves out, as long as the host's list begins with the very same messages."""
    pins: Pins = field(default_factory=dict)
    turn_ids: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_REMEMBERED))
    """The newest turns of this process: the store may not have all of them yet."""
    elsewhere: TurnRow | None = None
    """A newer turn of another process, until what it left here is taken in."""
    documents: int = 0
    """Documents that the session had at its last call by hand."""
    input_tokens: int | None = None
    """Of its last input."""
    summary: object = None
    """The coverage whose summary stands for what the cut leaves out."""

    def bodies_of(self, *, by_engine: bool) -> LaneBodies:
        """The last bodies of the calls that keep their history, or of those that leave it to us; the first follows the others."""
        if by_engine and not self.engine_bodies.units:
            self.engine_bodies = replace(self.bodies)
        elif not by_engine and not self.bodies.units:
            self.bodies = replace(self.engine_bodies, own=self.bodies.own)
        return self.engine_bodies if by_engine else self.bodies

    def begins_alike(
        self, places: Sequence[int | None], prefix: Sequence[int | None], counted_by: str
    ) -> tuple[dict[int, MessageItem], ArchivedList | None]:
        """What is kept of the list before, of the messages that the next one begins with, too; it is kept no more.

        Args:
            places: where the messages of the next list sit.
            prefix: the same of its leading messages that are the very ones of the list before.
            counted_by: the counter's name.
        """
        count, items, archived = len(prefix), self.items, self.archived
        self.items, self.archived = {}, None
        if not count or self.counted_by != counted_by or places[:count] != prefix:
            self.counted_by = counted_by
            return {}, None
        if count == len(self.sent_list.messages):
            return items, archived
        return {n: item for n, item in items.items() if n < count}, None


@dataclass(slots=True)
class OpenTurn:
    """A turn of this process. `question` is the newest entry of the line, the answer's parent."""

    handle: TurnHandle
    row: TurnRow
    question: int | None
    report: Report
    since: int = 0  # the length of the log when the call was prepared
    config: RuntimeConfig | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    chunks: dict[int, str] = field(default_factory=dict)
    restores: bool = False  # the host sent no history: what was said before is brought in
    task_id: str = ""
    sub_task_id: str = ""


class SessionView(SessionIndex):
    """One session: its log with the rows, indexes, evidence, cuts, open turns and lanes."""

    settings: int | None = None
    """The version of its owner's settings, as the last cheap read told."""
    degraded: Sequence[str] = ()  # codes, outside a turn; the next report has them
    tasks_and_blocks: tuple[Sequence[Task], Sequence[ContextBlock]] | None = None
    """The session's tasks and blocks; `None` until they are read, and whenever they may be others."""
    archived_config: tuple[RuntimeConfig, str] | None = None
    """The configuration that was archived last, and its digest."""

    def __init__(
        self,
        scope: Scope,
        head: SessionHead,
        fingerprinter: Fingerprinter,
        redactor: SessionRedactor | None,
    ) -> None:
        super().__init__()
        self.scope = scope
        self.head = head
        self.fingerprinter = fingerprinter
        self.redactor = redactor
        self.created = head.version > 0
        self.by_dedup: dict[bytes, str] = {}
        self.by_message: dict[str, str] = {}
        self.cuts: dict[tuple[str, str, str], CutMark] = {}
        self.summaries: dict[str, SummaryRow] = {}
        self.coverages: dict[str, object] = {}
        self.stale_turns: list[TurnRow] = []
        self.turns: dict[str, OpenTurn] = {}
        self.tool_runs: BoundedDict[str, ToolCall] = BoundedDict(MAX_RUNS)
        self.streaks = FailureStreaks()
        self.failed, self.batches = (
            BoundedDict[int, OpenTurn](MAX_REMEMBERED),
            Batches(MAX_REMEMBERED),
        )
        self.answers: set[int] = set()  # committed here, by a turn: no other turn's answer
        self.lanes: BoundedDict[str, LaneMemory] = BoundedDict(MAX_REMEMBERED)
        self.requests: BoundedDict[str, RequestMemory] = BoundedDict(MAX_REMEMBERED)
        self.names, self.facts = BoundedDict[str, str](MAX_RUNS), Facts(MAX_RUNS)
        self.tags: BoundedDict[tuple[tuple[str, str], ...], dict[str, str]] = BoundedDict(
            MAX_REMEMBERED
        )
        self._lines, self.spending = dict[str, int](), Spending()
        self.last_seq, self.last_evidence, self.bytes = 0, 0, VIEW_BYTES
        # Digests of messages by entry, and of configurations with the turn that has the whole of each.
        self.digests, self.configs = dict[int, str](), dict[str, str]()
        self._costs: tuple[tuple[str, str], dict[str, int]] = (("", ""), {})
        self._items: tuple[str, dict[int, MessageItem]] = ("", {})

    @property
    def held_bytes(self) -> int:
        """Bytes of memory, with those of vectors, of the live values behind placeholders and of runs' documents."""
        live = self.redactor.held_bytes if self.redactor is not None else 0
        vectors = self.vectors.bytes if self.vectors is not None else 0
        return self.bytes + live + vectors + sum(map(_BYTES, self.requests.values()))

    # What the store has

    @property
    def is_stored(self) -> bool:
        """Whether the store is known to have the session row."""
        return self.head.version > 0

    def goes_on_in(self, head: SessionHead) -> bool:
        """Whether what is known is of a stored session as it is now: of one salt, and nothing was deleted since."""
        return self.fingerprinter.key_id == head.key_id and not (
            self.is_stored and head.epoch != self.head.epoch
        )

    def landed(self, result: PutResult) -> None:
        """A group of ours is stored. If another process wrote in between, the next read tops up."""
        if not result.success:  # refused: somebody deleted the session
            self.head.salt = b""
        elif result.version == self.head.version + 1:
            self.head.version = result.version

    def top_up(self, state: SessionState) -> None:
        """Take in what is newer in the store; what is known already gets its `seq`."""
        self.head = state.head
        self.created = True
        self.tasks_and_blocks = None
        for row in state.rows:
            assert row.message.message_id is not None
            seq = row.message.seq or 0
            self.last_seq = max(self.last_seq, seq)
            n = self.log.by_message_id(row.message.message_id)
            if n is None:
                calls = row.message.tool_calls or ()
                self._met(row.redactor_version, row.message.content, *(str(c.args) for c in calls))
                self.add_row(row)
            else:
                self.log[n].seq = seq
                self.rows[n].message.seq = seq
        for item in state.evidence:
            self.last_evidence = max(self.last_evidence, item.seq)
            if item.evidence.evidence_id not in self.evidence:
                name = item.evidence.source.name
                self._met(item.redactor_version, item.evidence.content, name)
                self.add_evidence(item)
        for mark in state.cuts:
            self.cuts[mark.lane_key, mark.kind, mark.anchor_message_id] = mark
        for summary in state.summaries:
            self._met(summary.redactor_version, summary.summary.content)
        self.summaries |= {row.anchor_message_id: row for row in state.summaries}
        self.stale_turns = [turn for turn in state.open_turns if turn.turn_id not in self.turns]
        if (turn := state.newest_turn) is not None:
            self.spending.go_on(turn)
            lane = self.lane(turn.lane)
            lane.elsewhere = turn if turn.turn_id not in lane.turn_ids else None

    def _met(self, redactor_version: str, *texts: str) -> None:
        """Texts of another time: placeholders in them may be of whoever wrote them."""
        if isinstance(self.redactor, BoundRedactor):
            for text in texts:
                self.redactor.met(text, redactor_version)

    def add_row(self, row: MessageRow) -> int:
        """Put a message into the log; return its position."""
        n = self.log.add(entry_of(self.log, row))
        self.rows.append(row)
        self.unread += len(row.message.content)
        if row.request_id and not row.aside:
            self._went_on(row.request_id, self.log.root(n))
        self.bytes += 2 * len(row.message.content) + ENTRY_BYTES
        return n

    def add_evidence(self, row: EvidenceRow) -> None:
        evidence = row.evidence
        self.evidence[evidence.evidence_id] = row
        self.by_dedup[row.dedup_key] = evidence.evidence_id
        if row.message_id is not None:
            self.by_message[row.message_id] = evidence.evidence_id
        elif evidence.content and may_be_found(evidence):
            self.document_ids.append(evidence.evidence_id)
            self.unread += len(evidence.content)
        self.bytes += 2 * len(evidence.content) + ENTRY_BYTES

    def put_in_message(self, evidence_id: str, message_id: str) -> None:
        """The content of evidence that is here already stands in a message, too."""
        self.evidence[evidence_id] = replace(self.evidence[evidence_id], message_id=message_id)
        self.by_message[message_id] = evidence_id
        self.forget_document(evidence_id)

    def costs_of(self, counter: str, locale: str) -> dict[str, int]:
        """Tokens of what was nominated before, as a line; those of the last counter and language."""
        if self._costs[0] != (counter, locale):
            self._costs = ((counter, locale), {})
        return self._costs[1]

    def items_of(self, counter: str) -> dict[int, MessageItem]:
        """What stored messages were to calls that they were brought into, by entry; those of the last counter."""
        if self._items[0] != counter:
            self._items = (counter, {})
        return self._items[1]

    # Lanes, requests, turns

    def lane(self, name: str) -> LaneMemory:
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = LaneMemory()
        return lane

    def pin(self, name: str, pins: Pins) -> None:
        """Keep what stays before the messages of a lane."""
        lane = self.lane(name)
        before, now = (sum(len(pin.text) for pin in group.values()) for group in (lane.pins, pins))
        self.bytes += 2 * (now - before)
        lane.pins = pins

    def request(self, request_id: str) -> RequestMemory:
        """The memory of one invocation; old ones are forgotten."""
        return self.requests.setdefault(request_id, RequestMemory())

    def note_step(self, question: int, request_id: str) -> None:
        """Note a call; the same question answered twice for one invocation is asked by two of its steps."""
        log, opened = self.log, self.turns.values()
        if log.parents[question] >= 0 or not request_id:
            return  # a list with history: an agent's next step, or the next turn
        is_asked = any(t.question == question and t.row.request_id == request_id for t in opened)
        answers = (n for n in log.children(question) if log[n].role == "assistant")
        if is_asked or any(self.rows[n].request_id == request_id for n in answers):
            self.note_several(request_id)

    def note_several(self, request_id: str) -> None:
        self._lines[request_id] = SEVERAL

    def _went_on(self, request_id: str, root: int) -> None:
        if self._lines.setdefault(request_id, root) != root:
            self.note_several(request_id)

    def is_step(self, n: int, request_id: str) -> bool:
        """Whether an entry is no history for a request: of itself, or a step of an invocation with several.

        What one prompt of a chain was asked and answered is no history of another one.
        """
        by = self.rows[n].request_id
        return bool(by) and (by == request_id or self._lines.get(by) == SEVERAL)

    def batch_mates(self, batch: str, request_id: str) -> frozenset[str]:
        """The other items of a batch so far, as the invocations that they are; this one is noted."""
        if not batch:
            return frozenset()
        mates = self.batches.setdefault(batch, set())
        mates.add(request_id)
        return frozenset(mates - {request_id})

    def documents_of_others(self, request_id: str, mates: frozenset[str]) -> frozenset[str]:
        """Documents that are no history of an invocation: of its batch, or of one that waits for an answer."""
        waiting = mates | {turn.row.request_id for turn in self.turns.values()}
        foreign_documents, history_documents = set[str](), set[str]()
        for by in self.requests.keys() - {request_id}:
            group = (
                foreign_documents if by in waiting or by not in self._lines else history_documents
            )
            group.update(name for name, _ in self.requests[by].documents)
        return frozenset(foreign_documents - history_documents)

    def lines_of(self, requests: Iterable[str]) -> frozenset[int]:
        """The roots of the lanes in which invocations asked; one with several is no history anyway."""
        return frozenset(self._lines.get(request_id, SEVERAL) for request_id in requests) - {
            SEVERAL
        }

    def under_way(self) -> SessionView:
        """A view of what this process has under way alone, for `adopt`."""
        left = SessionView(self.scope, self.head, self.fingerprinter, None)
        left.turns, left.failed = self.turns, self.failed
        for turn in (*left.turns.values(), *left.failed.values()):
            # What was decided one by one is most of it, and stored: nobody asks the turn for it again.
            turn.report = turn.report.model_copy(update={"prune_decisions": []})
        left.requests, left.tool_runs = self.requests, self.tool_runs
        left.batches, left.spending = self.batches, self.spending
        left._count_under_way()
        return left

    def _count_under_way(self) -> None:
        turns = (*self.turns.values(), *self.failed.values())
        texts = [text for turn in turns for text in turn.chunks.values()]
        texts += [text for memory in self.requests.values() for _, text in memory.documents]
        length_of = {id(text): len(text) for text in texts}  # what two runs found is held once
        self.bytes += TURN_BYTES * len(turns) + 2 * sum(length_of.values())

    def adopt(self, old: SessionView) -> None:
        """Take over what this process has under way from the view that this one replaces."""
        for turn in old.turns.values():
            self.turns[turn.row.turn_id] = self._moved(turn)
        for turn in old.failed.values():
            moved = self._moved(turn)
            if moved.question is not None:
                self.failed[moved.question] = moved
        self.requests, self.tool_runs = old.requests, old.tool_runs
        self.batches = old.batches
        if old.spending.untouched >= self.spending.untouched:
            self.spending = old.spending
        self.stale_turns = [turn for turn in self.stale_turns if turn.turn_id not in self.turns]

    def _moved(self, turn: OpenTurn) -> OpenTurn:
        """The turn with its question's place in this log; a question that is gone is none."""
        tip = turn.row.tip_message_id
        turn.question = self.log.by_message_id(tip) if tip else None
        turn.since = len(self.log)
        return turn

    def in_flight(self) -> frozenset[int]:
        """Entries that an open turn of this process is answering."""
        return frozenset(turn.question for turn in self.turns.values() if turn.question is not None)


def entry_of(log: MessageForest, row: MessageRow) -> Entry:
    """A stored message as the next entry of a log."""
    message, find = row.message, log.by_message_id
    assert message.message_id is not None
    return Entry(
        message_id=message.message_id,
        key=row.key,
        role=str(message.role),
        parent=find(message.parent_id) if message.parent_id else None,
        speaker=row.speaker,
        calls=tuple(call.id or "" for call in message.tool_calls or ()),
        call_id=message.tool_call_id,
        host_id=row.host_id,
        loose_key=row.loose_key or None,
        replaces=find(message.replaces) if message.replaces else None,
        variant_of=find(message.variant_of) if message.variant_of else None,
        aside=row.aside,
        tokens=row.tokens,
        seq=message.seq,
        lane_key=row.lane_key,
    )
