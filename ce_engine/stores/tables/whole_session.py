"""A whole session out of the tables, and into them: functions of a connection, each in one transaction (19 B.8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select

from ce_engine.schema.document import Meta, Summary
from ce_engine.schema.ids import session_key
from ce_engine.schema.rows import CutMark, EvidenceRow, Placeholder, SessionHead
from ce_engine.schema.scope import Scope
from ce_engine.stores import row_rules
from ce_engine.stores.codec import compact
from ce_engine.stores.documents.session import StoredSession
from ce_engine.stores.tables import reads, rows, tables
from ce_engine.stores.tables import statements as sql
from ce_engine.stores.tables.macs import Macs
from ce_engine.stores.tables.table_change import Head, TableChange
from ce_engine.stores.tables.writes import finish, head_of


_s = tables.sessions
_SESSION = select(
    *(_s.c[n] for n in ("id", "last_evidence", "last_accessed_at", "access_count")),
    *(_s.c[n] for n in ("frameworks", "summary", "meta")),
    *rows.HEAD,
).where(reads.of_key())
_REMOVE = delete(_s).where(_s.c.id == bindparam("this"))
"""With all rows that hang on it."""


def read_whole(connection: Connection, scope: Scope) -> StoredSession | None:
    """All that is kept of a session, of a deleted one too."""
    found = connection.execute(_SESSION, reads.key_values(scope)).first()
    if found is None:
        return None
    this, last_evidence, last_accessed_at, access_count, frameworks, summary, meta, *head = found
    state, chain = reads.state(connection, scope, 0, 0), reads.chain(connection, scope)
    kept = StoredSession(
        rows.head(head),
        made_at=head[rows.HEAD.index(_s.c.created_at)],
        last_evidence=last_evidence,
        last_accessed_at=last_accessed_at,
        access_count=access_count,
        summary=Summary.model_validate(summary) if summary else None,
        meta=Meta.model_validate(meta or {}),
        frameworks=set(frameworks or ()),
        events=chain.events if chain else [],
    )
    if state is None:  # deleted: its events are all that is left
        return kept
    kept.messages, kept.cuts = state.rows, {_cut_key(mark): mark for mark in state.cuts}
    kept.evidence = {row.evidence.evidence_id: _without_copy(row) for row in state.evidence}
    kept.placeholders = {(item.label, item.mac): item for item in state.placeholders}
    kept.summaries = {row.anchor_message_id: row for row in state.summaries}
    kept.blocks = {block.block_id: block for block in reads.blocks(connection, this)}
    kept.calls = {row.call.tool_call_id: row for row in reads.calls(connection, this)}
    kept.usages = {usage.model_usage_id: usage for usage in reads.usages(connection, this)}
    kept.tasks = {task.task_id: task for task in reads.tasks(connection, this)}
    kept.turns = {turn.turn_id: turn for turn in reads.turns(connection, this)}
    return kept


def _cut_key(mark: CutMark) -> tuple[str, str, str]:
    return mark.lane_key, mark.kind, mark.anchor_message_id


def _without_copy(row: EvidenceRow) -> EvidenceRow:
    """The row without content that a message has."""
    if row.message_id is None:
        return row
    return replace(row, evidence=row.evidence.model_copy(update={"content": ""}))


def put_whole(
    connection: Connection,
    scope: Scope,
    kept: StoredSession,
    expected_version: int,
    secret: bytes,
) -> None:
    """Put a session into its place, its events as they are, with MACs of all its rows.

    Raises:
        VersionConflictError: what is, or was, there has not the expected version; 0 is nothing.
    """
    known = head_of(connection, scope)
    row_rules.check_place(scope, 0 if known is None else known["version"], expected_version)
    if known is not None:
        connection.execute(_REMOVE, {"this": known["id"]})
    sql.NEW_SESSION.run(connection, _head_values(scope, kept))
    found = head_of(connection, scope)
    assert found is not None
    head = Head(*(found[name] for name in ("id", *sql.MOVING)))
    head.version -= 1  # which the end of the group adds
    change = TableChange(
        connection,
        scope,
        head,
        secret,
        kept.head.salt,
        Macs(session_key(secret, kept.head.salt, scope)),
        kept.last_accessed_at,
        set(kept.frameworks),
        made=False,
        updated_at=kept.head.updated_at,
        repeats=False,
    )
    _put_rows(change, kept)
    events = [rows.event_values(change.this, scope, event) for event in kept.events]
    change.put(sql.NEW_EVENTS, events)
    finish(change, found, is_other=False)


def _head_values(scope: Scope, kept: StoredSession) -> rows.Values:
    head = kept.head
    values: rows.Values = {
        name: getattr(head, name) for name in SessionHead.__dataclass_fields__ if name in _s.c
    }
    meta = compact(kept.meta, {"created_at", "updated_at"})
    return values | {
        **reads.key_values(scope),
        "last_evidence": kept.last_evidence,
        "last_accessed_at": kept.last_accessed_at,
        "access_count": max(kept.access_count - 1, 0),
        "frameworks": sorted(kept.frameworks) or None,
        "summary": compact(kept.summary) if kept.summary else None,
        "meta": meta or None,
        "macs": None,
        "macs_mac": b"",
        "head_mac": None,
    }


def _put_rows(change: TableChange, kept: StoredSession) -> None:
    this = change.this

    def items(name: str, things: Any) -> list[rows.Values]:
        return [rows.item_values(this, name, thing) for thing in things]

    change.put(sql.NEW_MESSAGES, [rows.message_values(this, row) for row in kept.messages])
    change.put(
        sql.NEW_EVIDENCE, [rows.evidence_values(this, row) for row in kept.evidence.values()]
    )
    change.put(sql.PUT_BLOCKS, items("block_id", kept.blocks.values()))
    change.put(sql.PUT_CALLS, [rows.call_values(this, row) for row in kept.calls.values()])
    usages = items("model_usage_id", kept.usages.values())
    change.put(sql.NEW_USAGE, [each | {"turn_id": None} for each in usages])
    change.put(sql.PUT_TASKS, items("task_id", kept.tasks.values()))
    change.put(sql.PUT_TURN, [rows.turn_values(this, turn) for turn in kept.turns.values()])
    change.put(sql.PUT_CUT, [rows.cut_values(this, mark) for mark in kept.cuts.values()])
    change.put(sql.PUT_SUMMARY, [rows.summary_values(this, row) for row in kept.summaries.values()])
    marks: list[Placeholder] = list(kept.placeholders.values())
    change.put(sql.NEW_PLACEHOLDERS, [rows.placeholder_values(this, item) for item in marks])
