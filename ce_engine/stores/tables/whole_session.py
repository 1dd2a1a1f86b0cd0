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
from ce_engine.stores.documents.session import CheckedSession, StoredSession
from ce_engine.stores.tables import checking, reads, rows, tables
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
    session_row = connection.execute(_SESSION, reads.key_values(scope)).first()
    if session_row is None:
        return None
    (
        session_number,
        last_evidence,
        last_accessed_at,
        access_count,
        frameworks,
        summary,
        meta,
        *head,
    ) = session_row
    state, chain = reads.state(connection, scope, 0, 0), reads.chain(connection, scope)
    session = StoredSession(
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
        return session
    session.messages, session.cuts = state.rows, {_cut_key(mark): mark for mark in state.cuts}
    session.evidence = {row.evidence.evidence_id: _without_copy(row) for row in state.evidence}
    session.placeholders = {(item.label, item.mac): item for item in state.placeholders}
    session.summaries = {row.anchor_message_id: row for row in state.summaries}
    session.blocks = {block.block_id: block for block in reads.blocks(connection, session_number)}
    session.calls = {row.call.tool_call_id: row for row in reads.calls(connection, session_number)}
    session.usages = {
        usage.model_usage_id: usage for usage in reads.usages(connection, session_number)
    }
    session.tasks = {task.task_id: task for task in reads.tasks(connection, session_number)}
    session.turns = {turn.turn_id: turn for turn in reads.turns(connection, session_number)}
    return session


def read_checked(connection: Connection, scope: Scope, secret: bytes) -> CheckedSession | None:
    """The same with what the MACs say, all of the connection's one snapshot."""
    content, session = checking.check(connection, scope, secret), read_whole(connection, scope)
    return None if content is None or session is None else CheckedSession(session, content)


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
    session: StoredSession,
    expected_version: int,
    secret: bytes,
) -> None:
    """Put a session into its place, its events as they are, with MACs of all its rows.

    Raises:
        VersionConflictError: what is, or was, there has not the expected version; 0 is nothing.
    """
    old = head_of(connection, scope)
    row_rules.check_place(scope, 0 if old is None else old["version"], expected_version)
    if old is not None:
        connection.execute(_REMOVE, {"this": old["id"]})
    sql.NEW_SESSION.run(connection, _head_values(scope, session))
    session_row = head_of(connection, scope)
    assert session_row is not None
    head = Head(*(session_row[name] for name in ("id", *sql.MOVING)))
    head.version -= 1  # which the end of the group adds
    change = TableChange(
        connection,
        scope,
        head,
        secret,
        session.head.salt,
        Macs(session_key(secret, session.head.salt, scope)),
        session.last_accessed_at,
        set(session.frameworks),
        is_maker=False,
        updated_at=session.head.updated_at,
        repeats=False,
    )
    _put_rows(change, session)
    events = [rows.event_values(change.row_id, scope, event) for event in session.events]
    change.put(sql.NEW_EVENTS, events)
    finish(change, session_row, is_other=False)


def _head_values(scope: Scope, session: StoredSession) -> rows.Values:
    head = session.head
    values: rows.Values = {
        name: getattr(head, name) for name in SessionHead.__dataclass_fields__ if name in _s.c
    }
    meta = compact(session.meta, {"created_at", "updated_at"})
    return values | {
        **reads.key_values(scope),
        "last_evidence": session.last_evidence,
        "last_accessed_at": session.last_accessed_at,
        "access_count": max(session.access_count - 1, 0),
        "frameworks": sorted(session.frameworks) or None,
        "summary": compact(session.summary) if session.summary else None,
        "meta": meta or None,
        "macs": None,
        "macs_mac": b"",
        "head_mac": None,
    }


def _put_rows(change: TableChange, session: StoredSession) -> None:
    session_number = change.row_id

    def items(name: str, things: Any) -> list[rows.Values]:
        return [rows.item_values(session_number, name, thing) for thing in things]

    change.put(
        sql.NEW_MESSAGES, [rows.message_values(session_number, row) for row in session.messages]
    )
    change.put(
        sql.NEW_EVIDENCE,
        [rows.evidence_values(session_number, row) for row in session.evidence.values()],
    )
    change.put(sql.PUT_BLOCKS, items("block_id", session.blocks.values()))
    change.put(
        sql.PUT_CALLS, [rows.call_values(session_number, row) for row in session.calls.values()]
    )
    usages = items("model_usage_id", session.usages.values())
    change.put(sql.NEW_USAGE, [usage_values | {"turn_id": None} for usage_values in usages])
    change.put(sql.PUT_TASKS, items("task_id", session.tasks.values()))
    change.put(
        sql.PUT_TURN, [rows.turn_values(session_number, turn) for turn in session.turns.values()]
    )
    change.put(
        sql.PUT_CUT, [rows.cut_values(session_number, mark) for mark in session.cuts.values()]
    )
    change.put(
        sql.PUT_SUMMARY,
        [rows.summary_values(session_number, row) for row in session.summaries.values()],
    )
    marks: list[Placeholder] = list(session.placeholders.values())
    change.put(
        sql.NEW_PLACEHOLDERS, [rows.placeholder_values(session_number, item) for item in marks]
    )
