"""What the engine remembers of a session between calls, so that a call costs what is new (decision 3)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from ce_engine.ports import SessionRedactor
from ce_engine.prepare.relevance import LexicalIndex
from ce_engine.schema.call import HostMessage, TurnHandle
from ce_engine.schema.document import ToolCall
from ce_engine.schema.ids import Fingerprinter
from ce_engine.schema.log import Entry, Log
from ce_engine.schema.report import PutResult, Report
from ce_engine.schema.rows import (
    CutMark,
    EvidenceRow,
    MessageRow,
    SessionHead,
    SessionState,
    TurnRow,
)
from ce_engine.schema.scope import Scope


ENTRY_BYTES = 900
"""What an entry costs beside its text: row, entry, indexes (measured with tracemalloc, rounded up)."""

MAX_REQUESTS = 64


@dataclass(slots=True)
class LaneMemory:
    """The last body of a lane, as units of (what, tokens), and the list that the host sent."""

    body: list[tuple[Hashable, int]] = field(default_factory=list)
    prefix_hash: str = ""
    sent: list[HostMessage] = field(default_factory=list)
    places: list[int | None] = field(default_factory=list)


@dataclass(slots=True)
class RequestMemory:
    """What one invocation of the app has brought so far: evidence, and live texts of retrieved documents."""

    evidence_ids: list[str] = field(default_factory=list)
    documents: list[tuple[str, str]] = field(default_factory=list)
    """(evidence id, live text), best hit first; in memory only."""


@dataclass(slots=True)
class OpenTurn:
    """A turn of this process. `question` is the newest entry of the line, the answer's parent."""

    handle: TurnHandle
    row: TurnRow
    question: int | None
    report: Report
    since: int = 0
    """The length of the log when the call was prepared."""
    chunks: dict[int, str] = field(default_factory=dict)


class SessionView:
    """One session: its log with the rows, indexes, evidence, cuts, open turns and lanes."""

    def __init__(
        self,
        scope: Scope,
        head: SessionHead,
        fingerprinter: Fingerprinter,
        redactor: SessionRedactor | None,
    ) -> None:
        self.scope = scope
        self.head = head
        self.fingerprinter = fingerprinter
        self.redactor = redactor
        self.created = head.version > 0
        self.log = Log()
        self.rows: list[MessageRow] = []
        self.evidence: dict[str, EvidenceRow] = {}
        self.by_dedup: dict[bytes, str] = {}
        self.by_message: dict[str, str] = {}
        self.cuts: dict[tuple[str, str, str], CutMark] = {}
        self.stale_turns: list[TurnRow] = []
        self.turns: dict[str, OpenTurn] = {}
        self.tool_runs: dict[str, ToolCall] = {}
        self.failed: dict[int, OpenTurn] = {}
        self.answers: set[int] = set()
        """Entries that a turn of this process was committed with: no other turn's answer."""
        self.lanes: dict[str, LaneMemory] = {}
        self.requests: OrderedDict[str, RequestMemory] = OrderedDict()
        self.last_report: Report | None = None
        self.last_seq = 0
        self.last_evidence = 0
        self.bytes = 4096
        self._messages = LexicalIndex()
        self._indexed = 0
        self._documents = LexicalIndex()
        self._document_ids: list[str] = []
        self._indexed_documents = 0

    # What the store has

    @property
    def is_stored(self) -> bool:
        """Whether the store is known to have the session row."""
        return self.head.version > 0

    def landed(self, result: PutResult) -> None:
        """A group of ours is stored. If another process wrote in between, the next read tops up."""
        if result.version == self.head.version + 1:
            self.head.version = result.version

    def top_up(self, state: SessionState) -> None:
        """Take in what is newer in the store; what is known already gets its `seq`."""
        self.head = state.head
        self.created = True
        for row in state.rows:
            assert row.message.message_id is not None
            seq = row.message.seq or 0
            self.last_seq = max(self.last_seq, seq)
            n = self.log.by_message_id(row.message.message_id)
            if n is None:
                self.add_row(row)
            else:
                self.log[n].seq = seq
                self.rows[n].message.seq = seq
        for item in state.evidence:
            self.last_evidence = max(self.last_evidence, item.seq)
            if item.evidence.evidence_id not in self.evidence:
                self.add_evidence(item)
        for mark in state.cuts:
            self.cuts[mark.lane_key, mark.kind, mark.anchor_message_id] = mark
        self.stale_turns = [turn for turn in state.open_turns if turn.turn_id not in self.turns]

    def add_row(self, row: MessageRow) -> int:
        """Put a message into the log; return its position."""
        message = row.message
        assert message.message_id is not None
        find = self.log.by_message_id
        entry = Entry(
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
        n = self.log.add(entry)
        self.rows.append(row)
        self.bytes += 2 * len(message.content) + ENTRY_BYTES
        return n

    def add_evidence(self, row: EvidenceRow) -> None:
        evidence = row.evidence
        self.evidence[evidence.evidence_id] = row
        self.by_dedup[row.dedup_key] = evidence.evidence_id
        if row.message_id is not None:
            self.by_message[row.message_id] = evidence.evidence_id
        elif evidence.content:
            self._document_ids.append(evidence.evidence_id)
        self.bytes += 2 * len(evidence.content) + ENTRY_BYTES

    # What is relevant

    def search_messages(
        self, query: str, limit: int, exclude: Callable[[int], bool]
    ) -> list[tuple[int, float]]:
        """Entries that the query may need, best first. The index catches up with the log here."""
        while self._indexed < len(self.rows):
            row = self.rows[self._indexed]
            if row.message.content and not row.withheld:
                self._messages.add(
                    self._indexed,
                    row.message.content,
                    speaker=row.speaker or str(row.message.role),
                    at=row.message.at,
                )
            self._indexed += 1
        return [
            (hit.n, hit.score) for hit in self._messages.search(query, limit=limit, exclude=exclude)
        ]

    def search_documents(self, query: str, limit: int) -> list[tuple[str, float]]:
        """Evidence whose content stands in no message, best first."""
        while self._indexed_documents < len(self._document_ids):
            row = self.evidence[self._document_ids[self._indexed_documents]]
            self._documents.add(
                self._indexed_documents,
                row.evidence.content,
                speaker=row.evidence.source.name or None,
                kind="evidence",
            )
            self._indexed_documents += 1
        found = self._documents.search(query, limit=limit)
        return [(self._document_ids[hit.n], hit.score) for hit in found]

    # Lanes, requests, turns

    def lane(self, name: str) -> LaneMemory:
        return self.lanes.setdefault(name, LaneMemory())

    def known_places(self, name: str, messages: Sequence[HostMessage]) -> list[int | None]:
        """Places of the leading messages that are the very objects of the lane's last list."""
        lane = self.lanes.get(name)
        if lane is None:
            return []
        count = 0
        for known, message in zip(lane.sent, messages, strict=False):
            if known is not message:
                break
            count += 1
        return lane.places[:count] if count >= 2 else []

    def request(self, request_id: str) -> RequestMemory:
        """The memory of one invocation; old ones are forgotten."""
        memory = self.requests.get(request_id)
        if memory is None:
            memory = self.requests[request_id] = RequestMemory()
            while len(self.requests) > MAX_REQUESTS:
                self.requests.popitem(last=False)
        return memory

    def in_flight(self) -> frozenset[int]:
        """Entries that an open turn of this process is answering."""
        return frozenset(turn.question for turn in self.turns.values() if turn.question is not None)


class ViewCache:
    """Views by full scope, bounded in bytes; those with an open turn stay."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._mutex = threading.Lock()
        self._views: OrderedDict[tuple[str, str, str], SessionView] = OrderedDict()

    def get(self, scope: Scope) -> SessionView | None:
        with self._mutex:
            view = self._views.get(scope.key)
            if view is not None:
                self._views.move_to_end(scope.key)
            return view

    def put(self, view: SessionView) -> None:
        with self._mutex:
            self._views[view.scope.key] = view
            self._views.move_to_end(view.scope.key)
            self._shrink(view)

    def drop(self, scope: Scope) -> None:
        with self._mutex:
            self._views.pop(scope.key, None)

    def clear(self) -> None:
        with self._mutex:
            self._views.clear()

    @property
    def bytes(self) -> int:
        with self._mutex:
            return sum(view.bytes for view in self._views.values())

    def _shrink(self, newest: SessionView) -> None:
        total = sum(view.bytes for view in self._views.values())
        for key, view in list(self._views.items()):
            if total <= self._max:
                return
            if view is newest or view.turns:
                continue
            total -= view.bytes
            del self._views[key]
