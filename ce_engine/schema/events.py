"""One event, one log: what the bus carries and what the session's tamper-evident chain stores (A-20, B-01)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from ce_engine.schema.document import Schema, Summary


class EventType(StrEnum):
    """The types of events; those in `STORED` are kept."""

    SESSION_LOADED = "SessionLoaded"
    MESSAGE_APPENDED = "MessageAppended"
    SUMMARY_GENERATED = "SummaryGenerated"
    TOOL_CALLED = "ToolCalled"
    TOOL_CALL_COMPLETED = "ToolCallCompleted"
    EVIDENCE_INGESTED = "EvidenceIngested"
    BLOCKS_DERIVED = "BlocksDerived"
    PRUNE_COMPLETED = "PruneCompleted"
    ASSEMBLED = "Assembled"
    ASSISTANT_CHUNK_RECEIVED = "AssistantChunkReceived"
    ASSISTANT_MESSAGE_FINALIZED = "AssistantMessageFinalized"
    PERSISTED = "Persisted"
    ERROR = "Error"
    DEGRADED = "Degraded"
    RECONCILE_AMBIGUOUS = "reconcile.ambiguous"
    DELETED = "deleted"
    ACCESS_DENIED = "AccessDenied"
    INSPECTED = "Inspected"
    """Somebody looked at what would be sent (D-08)."""
    REDACTED = "Redacted"
    """Which rules hit what, with the audit switch on (A-19)."""
    ORIGINALS_STORED = "OriginalsStored"
    """The second store has originals of these pieces; `payload` has their ids."""
    ORIGINAL_READ = "OriginalRead"
    """Somebody asked for what redaction took out; `payload` says who, and of what."""
    CONSTRAINT_VIOLATED = "ConstraintViolated"
    """An answer breaks constraints of its owner; `payload` has the message's id and theirs (D-15)."""
    RECORDED = "Recorded"
    """A host's own event of `record_event`: planner, reflection, aggregate, hitl."""


STORED = frozenset(
    {
        EventType.MESSAGE_APPENDED,
        EventType.SUMMARY_GENERATED,
        EventType.TOOL_CALLED,
        EventType.TOOL_CALL_COMPLETED,
        EventType.EVIDENCE_INGESTED,
        EventType.PRUNE_COMPLETED,
        EventType.ASSISTANT_MESSAGE_FINALIZED,
        EventType.ERROR,
        EventType.DEGRADED,
        EventType.REDACTED,
        EventType.ORIGINALS_STORED,
        EventType.ORIGINAL_READ,
        EventType.CONSTRAINT_VIOLATED,
        EventType.RECORDED,
        EventType.DELETED,
        EventType.ACCESS_DENIED,
        EventType.INSPECTED,
    }
)
"""The types that are stored, in the transaction of what they describe; the others are on the bus only.

So are two of these where what is stored says the same: `EvidenceIngested` of an answer, which its
message's event tells of, and `PruneCompleted` of a turn that keeps the cut of an earlier one.
"""

KIND = {
    EventType.TOOL_CALLED: "tool_call",
    EventType.TOOL_CALL_COMPLETED: "tool_result",
    EventType.SUMMARY_GENERATED: "summary",
    EventType.ERROR: "error",
    EventType.DEGRADED: "error",
    EventType.ASSISTANT_MESSAGE_FINALIZED: "final",
}
"""The session-log kind (B-01) of an event type; `MessageAppended` of a task is `user_input`."""


class Event(Schema):
    """A fact about a session. `seq` counts from 1 in the session and is given by the store, with `hash`.

    `payload` never holds unredacted content; `ts` is UTC, ISO 8601 with `Z`.
    """

    event_type: str
    session_id: str
    turn_id: str | None = None
    task_id: str | None = None
    tool_call_id: str | None = None
    model_usage_id: str | None = None
    ts: str = ""
    tags: dict[str, str] = Field(default_factory=dict)
    payload: dict[str, Any] = Field(default_factory=dict)

    event_id: str = ""
    seq: int | None = None
    kind: str = ""
    account_id: str = ""
    user_id: str = ""
    request_id: str = ""
    redacted: bool = False
    """Whether the payload went through redaction; nothing else is stored (B-02)."""
    token_estimate: int = 0
    meta: dict[str, Any] = Field(default_factory=dict)
    nonce: str = ""
    """Random; erased with the payload, so that a deleted payload cannot be guessed from its MAC."""
    payload_mac: str = ""
    """Of `payload_mac()`, under the session's key; of a `deleted` event under the chain's own key, which
    outlives that. Where it is empty the store makes it."""
    hash: str = ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """A `deleted` event: a whole session up to there, or one piece of evidence."""

    seq: int
    at: str
    what: str
    """`"session"` or `"evidence"`."""
    evidence_id: str | None = None


@dataclass(frozen=True, slots=True)
class ContentCheck:
    """What a store's look at the MACs of a session's stored rows found.

    Attributes:
        rows: how many rows are what their MACs tell of.
        wrong: what is not what was recorded, in words without content.
        unverified: what nothing can be said of, and why.
        trail: by the number of an event, the MAC of all content that was recorded up to it.
        uncounted: what is there besides, which nothing reads and no MAC covers.
    """

    rows: int = 0
    wrong: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    trail: Mapping[int, str] = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()


NO_MACS = ContentCheck(unverified=("content: this store keeps no MACs of it",))


@dataclass(frozen=True, slots=True)
class Verification:
    """What a look at a session's whole log, and at the content that it tells of, found (B-01).

    Attributes:
        events: how many there are.
        tampered_seq: the first event that is not what was recorded, or is missing; `None` if all are.
        deleted: the deletions that the log names, oldest first.
        unchecked: events whose payload could not be checked: the key is gone.
        rows: stored rows that are what the log's MACs tell of.
        wrong: what else is not what was recorded, in words without content.
        unverified: what nothing can be said of, and why.
        anchor: the line for a file of anchors.
        uncounted: what is there besides, which nothing reads and no MAC covers.
    """

    events: int
    tampered_seq: int | None
    deleted: tuple[Deletion, ...]
    unchecked: int
    rows: int = 0
    wrong: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    anchor: str = ""
    uncounted: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """`"tampered"`; else `"unverified"` (in part); else `"deleted"` (intact, but for that) or `"intact"`."""
        if self.tampered_seq is not None or self.wrong:
            return "tampered"
        if self.unverified or self.unchecked or self.uncounted:
            return "unverified"
        return "deleted" if self.deleted else "intact"


@dataclass(slots=True)
class CompactLog:
    """What is left of a log. The log itself is never shortened: its chain stays whole.

    Attributes:
        strategy: `none`, `key_events` or `summary`.
        tokens_before: of all events.
        tokens: of what is here.
        summaries: what stands for older messages, oldest first.
        events: in their order.
        left_out: how many events are not among them, by kind (`""` for those without one).
    """

    strategy: Literal["none", "key_events", "summary"]
    tokens_before: int
    tokens: int
    summaries: Sequence[Summary] = ()
    events: Sequence[Event] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
