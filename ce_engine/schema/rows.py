"""What a store holds beside the document: rows, heads, marks, and writes as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator

from ce_engine.schema.document import (
    ContextBlock,
    Evidence,
    EvidenceLinks,
    Message,
    ModelUsage,
    SessionDocument,
    Task,
    ToolCall,
)
from ce_engine.schema.enums import Origin, TurnStatus
from ce_engine.schema.events import Event
from ce_engine.schema.summaries import PutSummary as PutSummary
from ce_engine.schema.summaries import SummaryRow as SummaryRow


def _origin(value: str) -> Origin:
    """Pydantic 2.13 takes no enumeration as a validator: since Python 3.12 its signature is `*values`."""
    return Origin(value)


@dataclass(slots=True)
class MessageRow:
    """A stored message with what recognises it. `message.content` is redacted; `message.seq` is the store's.

    Attributes:
        key: keyed fingerprint of the live content (16 bytes).
        loose_key: the same without white space, thinking and citations.
        speaker: author, else the agent for an assistant message.
        host_id: MAC of the framework's message id.
        aside: stands on no path (a host summary, a preload).
        tokens: tokens of the live content without its media, which are not stored; counted by `counted_by`.
        has_sensitive: something was redacted.
        withheld: redaction failed, it was deleted, or only a pointer is wanted: the content is empty,
            `length` is the live one's in characters.
        late: written after an outage of the store.
    """

    message: Message
    key: bytes
    loose_key: bytes
    origin: Annotated[str, AfterValidator(_origin)]
    speaker: str | None = None
    lane_key: str = ""
    turn_id: str | None = None
    request_id: str = ""
    host_id: bytes | None = None
    aside: bool = False
    tokens: int = 0
    counted_by: str = ""
    length: int = 0
    framework: str = ""
    has_sensitive: bool = False
    withheld: bool = False
    redactor_version: str = ""
    late: bool = False


@dataclass(slots=True)
class TurnRow:
    """A turn as stored: numbers and refs; `report` is the report's JSON form without content.

    Where turns are listed, `{"damaged": [fields], "errors": [code]}` stands for a report that is none.
    """

    turn_id: str
    request_id: str = ""
    lane: str = ""
    status: TurnStatus = TurnStatus.OPEN
    purpose: str = "chat"
    framework: str = ""
    parent_turn_id: str | None = None
    attempt: int = 1
    opened_at: str = ""
    closed_at: str = ""
    owner: str = ""
    """The process that holds it open, as `host:pid:start`."""
    tip_message_id: str | None = None
    """The message that is answered: the answer's parent."""
    answer_message_id: str | None = None
    model_usage_id: str | None = None
    attempts: list[dict[str, Any]] = field(default_factory=list)
    """Attempts before this one: status, error code, when."""
    report: dict[str, Any] = field(default_factory=dict)


def archive_of(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a turn can be made again from, of its report as it is stored; empty where there is none, or what stands there is none."""
    extra = report.get("extra")
    archive = extra.get("replay") if isinstance(extra, Mapping) else None
    return archive if isinstance(archive, Mapping) else {}


@dataclass(slots=True)
class CutMark:
    """Where a lane was cut: everything before the anchor is left out (`drop`) or shortened (`shorten`).

    A mark is void when its anchor is not in the lane any more or the budget grew by a quarter.
    """

    lane_key: str
    kind: str
    anchor_message_id: str
    budget: int
    made_at: str = ""


@dataclass(slots=True)
class SessionHead:
    """The session row, without its content. `epoch` moves with every write that is no append."""

    version: int = 0
    epoch: int = 0
    last_seq: int = 0
    last_event_seq: int = 0
    chain_head: str = ""
    salt: bytes = b""
    key_id: str = ""
    ephemeral: bool = False
    created_at: str = ""
    updated_at: str = ""
    project_id: str = ""
    """The project of who made the session; no other one reads it (D-10)."""

    @property
    def is_deleted(self) -> bool:
        """Whether the session was deleted: its key is destroyed with its salt."""
        return not self.salt

    def is_new_life_of(self, earlier: SessionHead) -> bool:
        """Whether the session was deleted since `earlier` was read, and has begun again.

        What was never read (version 0) was begun here while the store was away, under a key of its own.
        """
        return earlier.version > 0 and self.key_id != earlier.key_id and self.epoch > earlier.epoch


HEAD_ONLY = 2**31 - 1
"""A number that no row has: after it there is nothing but the head of a session."""


@dataclass(slots=True)
class SessionState:
    """All that a view is built from, read in one go; `rows` and `evidence` only what is newer than asked.

    `newest_turn` is the one that was opened last.
    """

    head: SessionHead
    rows: list[MessageRow] = field(default_factory=list)
    cuts: list[CutMark] = field(default_factory=list)
    summaries: list[SummaryRow] = field(default_factory=list)
    open_turns: list[TurnRow] = field(default_factory=list)
    evidence: list[EvidenceRow] = field(default_factory=list)
    placeholders: list[Placeholder] = field(default_factory=list)
    newest_turn: TurnRow | None = None


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The number that a redacted value has in its session, e.g. `EMAIL`, its MAC, 1 for `[EMAIL_1]`."""

    label: str
    mac: bytes
    number: int


@dataclass(slots=True)
class ToolCallRow:
    """A tool call with the host's id of it, which may repeat, and the message that asked for it."""

    call: ToolCall
    host_call_id: str | None = None
    message_id: str | None = None
    turn_id: str | None = None
    ended: bool = True
    redactor_version: str = ""


@dataclass(slots=True)
class EvidenceRow:
    """A piece of evidence with its dedup key (MAC of source and content) and size; `seq` is the store's.

    With `message_id` the content is that message's: the store keeps it once, in the message, and
    fills `evidence.content` in when it is read.
    """

    evidence: Evidence
    dedup_key: bytes = b""
    tokens: int = 0
    turn_id: str | None = None
    message_id: str | None = None
    lane_key: str = ""
    project_id: str = ""
    shared: bool = False
    redactor_version: str = ""
    seq: int = 0


@dataclass(slots=True)
class EventChain:
    """A session's events with the head that they must end in, read in one go."""

    head: SessionHead
    events: list[Event] = field(default_factory=list)


@dataclass(slots=True)
class SessionInfo:
    """A line of `ce sessions`."""

    session_id: str
    user_id: str
    account_id: str
    frameworks: list[str]
    messages: int
    tool_calls: int
    evidences: int
    turns: int
    ephemeral: bool
    created_at: str
    updated_at: str


# Writes, as values: a store applies a sequence of them together or not at all.


@dataclass(slots=True)
class CreateSession:
    """The session row, if it is not there yet.

    If it is there with another `key_id`, the whole group is refused with `VersionConflictError`: its
    rows were made with a salt that nobody has.
    """

    salt: bytes
    key_id: str
    ephemeral: bool = False
    at: str = ""


@dataclass(slots=True)
class ForSession:
    """The session that the group was made for, by what its maker knew of it.

    If the session has another `key_id`, the group is refused: with `SessionNotFoundError` if its epoch
    is newer too (it was deleted: nothing of it comes back), else as by `CreateSession`.
    """

    key_id: str
    epoch: int


@dataclass(slots=True)
class AppendMessages:
    """Appends: no version; the store gives `seq`. A `message_id` that is there already is skipped (B-07)."""

    rows: Sequence[MessageRow]


@dataclass(slots=True)
class PutEvidence:
    """Idempotent by `evidence_id`; the first one stands."""

    row: EvidenceRow


@dataclass(slots=True)
class LinkEvidence:
    """Another call brought the same evidence: `links` is added to `metadata["links"]`, once.

    The first link of evidence that has none becomes its own `links` (A-03).
    Evidence that is not there (deleted meanwhile) is passed over. With `message_id` its content is
    that message's from now on, and is not kept twice.
    """

    evidence_id: str
    links: EvidenceLinks
    message_id: str | None = None


@dataclass(slots=True)
class PutBlocks:
    """Upsert by `block_id`."""

    blocks: Sequence[ContextBlock]


@dataclass(slots=True)
class AppendToolCalls:
    """Upsert by `tool_call_id`: an ended row replaces one that had not, never the other way round.

    `called_at` of the first stands, `result_evidence_ids` add up.
    """

    rows: Sequence[ToolCallRow]


@dataclass(slots=True)
class AppendModelUsage:
    """Idempotent by `model_usage_id`; the first one stands."""

    usages: Sequence[ModelUsage]
    turn_id: str | None = None


@dataclass(slots=True)
class UpsertTasks:
    """Upsert by `task_id`."""

    tasks: Sequence[Task]


@dataclass(slots=True)
class PutTurn:
    """Upsert by `turn_id`; but a turn that is closed stays as it is if it is put as `abandoned`."""

    turn: TurnRow


@dataclass(slots=True)
class PutCut:
    """Upsert by (lane_key, kind, anchor_message_id); the mark at `replaces` goes."""

    mark: CutMark
    replaces: str | None = None


@dataclass(slots=True)
class AppendEvents:
    """The store gives `seq`, and `hash` by `schema.event_chain.link` with `schema.ids.chain_keys`.

    `payload_mac` is set by the caller; where it is empty, the store makes it, with the session's key.
    An `event_id` that is there already is skipped.
    """

    events: Sequence[Event]


@dataclass(slots=True)
class PutPlaceholders:
    """Idempotent by (label, mac); the first number stands."""

    items: Sequence[Placeholder]


@dataclass(slots=True)
class ReplaceDocument:
    """Replace the document (put and patch): guarded by `expected_version`, moves the epoch.

    With `fields`, only these fields of `document.session`, of a session that is there. A message
    that is there already (same id, role and content) keeps its row and what recognises it. Summaries
    of lanes go with the messages or the summary that are replaced.
    """

    document: SessionDocument
    fields: frozenset[str] | None = None


@dataclass(slots=True)
class DeleteSession:
    """Delete all content of a session, and its key; it stands alone in its group (A-30).

    Rows go; of events the envelopes stay, with `payload`, `tags`, `meta` and `nonce` empty (those of
    earlier deletions stay as they are), and `event`, of type `deleted`, is appended. The epoch moves,
    numbers go on, and the session is as good as not there but for its events: the next write begins it
    anew, with a salt of its own. `PutResult.removed` counts messages, evidences, tool_calls and turns.

    Raises:
        SessionNotFoundError: there is no session, or it was deleted already.
    """

    event: Event


@dataclass(slots=True)
class DeleteEvidence:
    """Delete the content and metadata of a piece of evidence; its id, source and links stay (A-30).

    The message that has its content loses it, and blocks that rest on it go. So do all summaries of
    the session, with the content of the evidence that they were made of: they may repeat it. From all
    other rows its text is taken out, and so are `texts`, which it was before redaction, whole or in
    passages (`ce_engine.stores.erasing`), and `PutResult.cleared` names them; of `events`, by number,
    payload, tags, meta and nonce go. Not `everywhere`, no other row is looked through: its own content goes
    alone, with the blocks and summaries. What recognises evidence and message stays: a host that sends them again does not bring them back. The
    epoch moves and `event` is appended; nothing happens where it is not there or was deleted already.
    `PutResult.removed` counts evidences.

    Raises:
        SessionNotFoundError: there is no session.
    """

    evidence_id: str
    event: Event
    events: Sequence[int] = ()
    texts: Sequence[str] = ()
    everywhere: bool = True


Write = (
    CreateSession
    | ForSession
    | AppendMessages
    | PutEvidence
    | LinkEvidence
    | PutBlocks
    | AppendToolCalls
    | AppendModelUsage
    | UpsertTasks
    | PutTurn
    | PutCut
    | PutSummary
    | AppendEvents
    | PutPlaceholders
    | ReplaceDocument
    | DeleteSession
    | DeleteEvidence
)
