"""Rows of the schema to values of the columns, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter
from sqlalchemy import Column

from ce_engine.schema.document import Evidence, Message, ToolCall
from ce_engine.schema.enums import Origin, TurnStatus
from ce_engine.schema.events import Event
from ce_engine.schema.rows import (
    CutMark,
    EvidenceRow,
    MessageRow,
    Placeholder,
    SessionHead,
    SessionInfo,
    SummaryRow,
    ToolCallRow,
    TurnRow,
)
from ce_engine.schema.scope import Scope
from ce_engine.stores.codec import compact, escape, from_json, unescape
from ce_engine.stores.tables import tables


M = TypeVar("M", bound=BaseModel)
Values = dict[str, Any]


def _fields(names: Sequence[str]) -> Callable[[object], Values]:
    """What gives these fields of a thing, by name."""
    get = attrgetter(*names)
    return lambda thing: dict(zip(names, get(thing), strict=True))


HEAD = [
    tables.sessions.c[name]
    for name in (
        "version",
        "epoch",
        "last_seq",
        "last_event_seq",
        "chain_head",
        "salt",
        "key_id",
        "ephemeral",
        "created_at",
        "updated_at",
        "project_id",
    )
]


def head(values: Sequence[Any]) -> SessionHead:
    """From the columns `HEAD`."""
    _numbers(4, values[:4])
    if not isinstance(values[5], bytes):
        raise TypeError("a session's salt is no bytes")
    return SessionHead(*values)


def _numbers(count: int, values: Sequence[Any]) -> Sequence[int]:
    """Numbers, of a database that keeps in such a column what somebody puts there."""
    if [value.__class__ for value in values] != [int] * count:
        raise TypeError("a column of numbers has something else in it")
    return values


_BLOBS = ("salt", "macs", "macs_mac", "head_mac")
MOST = 0x7FFFFFFF
"""No version or number of rows is greater; a sum of what somebody put there may be more than SQLite counts."""
_COUNTS = ("version", "epoch", "last_seq", "last_evidence", "last_event_seq", "access_count")


def session_values(row: Values) -> Values:
    """A session's own row as the database has it, of the types that its columns have."""
    _numbers(len(_COUNTS), [row[name] for name in _COUNTS])
    return row | {name: tables.as_bytes(row[name]) for name in _BLOBS}


def mended_session(row: Values) -> Values:
    """A session's own row with nothing in place of what its columns do not have: it is to be deleted."""
    numbers = {name: row[name] for name in _COUNTS}
    for name, value in numbers.items():
        if value.__class__ is not int or not 0 <= value < MOST:
            numbers[name] = 0
    blobs = {n: tables.as_bytes(row[n]) for n in _BLOBS if isinstance(row[n], (bytes, memoryview))}
    return row | dict.fromkeys(_BLOBS, b"") | blobs | numbers | {"frameworks": None}


def names(values: Sequence[Any]) -> list[str] | None:
    """Names as the database has them; `None` where somebody put there what no name of ours is kept as."""
    try:
        texts = [unescape(value) for value in values]
        return texts if [escape(name) for name in texts] == list(values) else None
    except _NO_NAME:
        return None


_NO_NAME = (ValueError, TypeError, AttributeError)


def session_info(values: Sequence[Any]) -> SessionInfo | None:
    """From a row as the database has it; `None` if it cannot be told of: that ends no list of the others."""
    session_id, user_id, account_id, frameworks, *counts, ephemeral, created_at, updated_at = values
    texts = names([session_id, user_id, account_id, created_at, updated_at])
    try:
        framework_names = sorted(map(str, from_json(frameworks) if frameworks else ()))
    except _NO_NAME:
        framework_names = []
    if texts is None:
        return None
    fields: list[Any] = [*texts[:3], framework_names, *counts, bool(ephemeral), *texts[3:]]
    return SessionInfo(*fields)


_IN_MESSAGE = ("message_id", "parent_id", "at", "seq", "content", "role")
_OF_ROW = (
    "key",
    "loose_key",
    "origin",
    "speaker",
    "lane_key",
    "turn_id",
    "request_id",
    "host_id",
    "aside",
    "tokens",
    "counted_by",
    "length",
    "framework",
    "has_sensitive",
    "withheld",
    "redactor_version",
    "late",
)
_TOKENS, _LENGTH = _OF_ROW.index("tokens"), _OF_ROW.index("length")
_ORIGIN, _ORIGINS = _OF_ROW.index("origin"), frozenset(map(str, Origin))
MESSAGE = [tables.messages.c[name] for name in (*_IN_MESSAGE, "extra", *_OF_ROW)]
_IN_COLUMNS = frozenset(_IN_MESSAGE)
_row_fields, _message_fields = _fields(_OF_ROW), _fields(_IN_MESSAGE)


def message_values(session: int, row: MessageRow) -> Values:
    """The columns of a message."""
    message = row.message
    more = {"session": session, "extra": compact(message, _IN_COLUMNS)}
    return _row_fields(row) | _message_fields(message) | more


def message_row(values: Sequence[Any]) -> MessageRow:
    """From the columns `MESSAGE`."""
    message_id, parent_id, at, seq, content, role, extra, *rest = values
    fields = {
        "role": role,
        "content": content,
        "message_id": message_id,
        "parent_id": parent_id,
        "at": at,
        "seq": seq,
    }
    if extra:
        fields |= extra
    if not rest[_TOKENS].__class__ is rest[_LENGTH].__class__ is int:
        raise TypeError("a message's tokens or length are no numbers")
    if rest[_ORIGIN] not in _ORIGINS:
        raise ValueError("a message's origin is none of ours")
    return MessageRow(Message.model_validate(fields), *rest)


_OF_EVIDENCE = (
    "dedup_key",
    "tokens",
    "turn_id",
    "message_id",
    "lane_key",
    "project_id",
    "shared",
    "redactor_version",
    "seq",
)
_evidence_fields = _fields(_OF_EVIDENCE)
EVIDENCE: list[Column[Any]] = [
    tables.evidence.c[name] for name in ("evidence_id", "body", "content", *_OF_EVIDENCE)
]


def evidence_values(session: int, row: EvidenceRow) -> Values:
    """The columns of a piece of evidence, without content that a message has."""
    evidence = row.evidence
    return _evidence_fields(row) | {
        "session": session,
        "evidence_id": evidence.evidence_id,
        "content": evidence.content if row.message_id is None else "",
        "body": evidence_body(evidence),
    }


def evidence_body(evidence: Evidence) -> Values:
    """The fields that have no column of their own."""
    return compact(evidence, {"evidence_id", "content"})


def evidence_row(values: Sequence[Any]) -> EvidenceRow:
    """From the columns `EVIDENCE` and the content of the message that has it."""
    evidence_id, body, content, *rest, of_message = values
    _numbers(2, (rest[1], rest[-1]))
    fields = {**body, "evidence_id": evidence_id, "content": of_message or content}
    return EvidenceRow(Evidence.model_validate(fields), *rest)


def item_values(session: int, name: str, thing: BaseModel) -> Values:
    """A thing as its id and its other fields."""
    return {"session": session, name: getattr(thing, name), "body": compact(thing, {name})}


def item(kind: type[M], name: str, values: Sequence[Any]) -> M:
    """A thing from its id and its other fields."""
    item_id, body = values
    return kind.model_validate({**body, name: item_id})


_OF_CALL = ("host_call_id", "message_id", "turn_id", "ended", "redactor_version")
_call_fields = _fields(_OF_CALL)
CALL: list[Column[Any]] = [
    tables.tool_calls.c[name] for name in ("tool_call_id", "body", *_OF_CALL)
]


def call_values(session: int, row: ToolCallRow) -> Values:
    """The columns of a tool call."""
    return _call_fields(row) | {
        "session": session,
        "tool_call_id": row.call.tool_call_id,
        "body": compact(row.call, {"tool_call_id"}),
    }


def call_row(values: Sequence[Any]) -> ToolCallRow:
    """From the columns `CALL`."""
    tool_call_id, body, *rest = values
    return ToolCallRow(ToolCall.model_validate({**body, "tool_call_id": tool_call_id}), *rest)


_OF_TURN = tuple(TurnRow.__dataclass_fields__)
_turn_fields = _fields(_OF_TURN)
TURN: list[Column[Any]] = [tables.turns.c[name] for name in _OF_TURN]


def turn_values(session: int, row: TurnRow) -> Values:
    """The columns of a turn."""
    return _turn_fields(row) | {"session": session, "status": row.status.value}


def turn_row(values: Sequence[Any]) -> TurnRow:
    """From the columns `TURN`."""
    row = TurnRow(*values)
    _numbers(1, [row.attempt])
    row.status = TurnStatus(row.status)
    row.attempts = row.attempts or []
    row.report = row.report or {}
    return row


_OF_SUMMARY = ("tips", "lane_key", "tokens", "counted_by", "evidence_id", "redactor_version")
_summary_fields = _fields(_OF_SUMMARY)
_SUMMARY_ROW = TypeAdapter(SummaryRow)


def summary_values(session: int, row: SummaryRow) -> Values:
    """The columns of a summary."""
    body = _summary_fields(row)
    body["summary"] = compact(row.summary)
    return {"session": session, "anchor_message_id": row.anchor_message_id, "body": body}


def summary_row(values: Sequence[Any]) -> SummaryRow:
    """From the name of a summary and its other fields."""
    anchor, body = values
    return _SUMMARY_ROW.validate_python({**body, "anchor_message_id": anchor})


_OF_CUT = ("lane_key", "kind", "anchor_message_id", "budget", "made_at")
_cut_fields = _fields(_OF_CUT)
CUT: list[Column[Any]] = [tables.cuts.c[name] for name in _OF_CUT]


def cut_values(session: int, mark: CutMark) -> Values:
    """The columns of a mark."""
    return {"session": session} | _cut_fields(mark)


def cut_mark(values: Sequence[Any]) -> CutMark:
    """From the columns `CUT`."""
    mark = CutMark(*values)
    _numbers(1, [mark.budget])
    return mark


PLACEHOLDER: list[Column[Any]] = [tables.placeholders.c[n] for n in ("label", "mac", "number")]


def placeholder(values: Sequence[Any]) -> Placeholder:
    """From the columns `PLACEHOLDER`."""
    item = Placeholder(*values)
    _numbers(1, [item.number])
    return item


def placeholder_values(session: int, item: Placeholder) -> Values:
    """The columns of a placeholder."""
    return {"session": session, "label": item.label, "mac": item.mac, "number": item.number}


_OF_EVENT = (
    "seq",
    "event_id",
    "event_type",
    "kind",
    "turn_id",
    "task_id",
    "tool_call_id",
    "model_usage_id",
    "request_id",
    "ts",
    "redacted",
    "token_estimate",
    "nonce",
    "payload_mac",
    "hash",
    "payload",
)
_event_fields = _fields(_OF_EVENT)
EVENT: list[Column[Any]] = [tables.events.c[name] for name in (*_OF_EVENT, "extra")]
_SCOPE = ("account_id", "user_id", "session_id")
_OUT_OF_EXTRA = frozenset({*_OF_EVENT, *_SCOPE})


def event_values(session: int, scope: Scope, event: Event) -> Values:
    """Columns of an event; its scope is kept only where it is not the session's own."""
    extra = compact(event, _OUT_OF_EXTRA)
    own = (event.account_id, event.user_id, event.session_id)
    if own != scope.key:
        extra["scope"] = [*own]
    more = {"session": session, "extra": extra, "event_id": event.event_id or None, "macs": None}
    return _event_fields(event) | more


def event_of(scope: Scope, values: Sequence[Any]) -> Event:
    """From the columns `EVENT`."""
    columns, extra = values[:-1], values[-1] or {}
    fields: Values = dict(zip(_OF_EVENT, columns, strict=True))
    fields["event_id"] = fields["event_id"] or ""
    fields["payload"] = fields["payload"] or {}
    fields |= zip(_SCOPE, extra.pop("scope", scope.key), strict=True)
    return Event.model_validate({**fields, **extra})
