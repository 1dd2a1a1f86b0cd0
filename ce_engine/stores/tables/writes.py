"""What is written: one group of writes as one function of a connection, inside one transaction."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection

from ce_engine.schema.copies import copied
from ce_engine.schema.enums import TurnStatus
from ce_engine.schema.ids import Fingerprinter, chain_keys, session_key
from ce_engine.schema.report import PutResult
from ce_engine.schema.rows import (
    AppendEvents,
    AppendMessages,
    AppendModelUsage,
    AppendToolCalls,
    CreateSession,
    DeleteEvidence,
    DeleteSession,
    ForSession,
    LinkEvidence,
    PutBlocks,
    PutCut,
    PutEvidence,
    PutPlaceholders,
    PutSummary,
    PutTurn,
    ReplaceDocument,
    ToolCallRow,
    UpsertTasks,
    Write,
)
from ce_engine.schema.scope import Scope
from ce_engine.stores import row_rules
from ce_engine.stores.codec import from_json
from ce_engine.stores.tables import reads, rows, tables
from ce_engine.stores.tables import statements as sql
from ce_engine.stores.tables.deleting import delete_evidence, delete_session
from ce_engine.stores.tables.macs import FORGED, OLDER, Macs, of_head, running
from ce_engine.stores.tables.replacing import replace_document
from ce_engine.stores.tables.table_change import Head, TableChange


def apply(
    connection: Connection,
    scope: Scope,
    writes: Sequence[Write],
    expected_version: int | None,
    now: str,
    secret: Callable[[], bytes],
    *,
    repeats: bool,
) -> PutResult:
    """Apply all writes in order; the caller commits or rolls back.

    Raises:
        IntegrityError: a message or event is there already and `repeats` is false.
    """
    is_deleted = any(isinstance(write, DeleteSession) for write in writes[:1])
    session_row = head_of(connection, scope, is_deleted=is_deleted)
    new = session_row is None or not session_row["salt"]
    there = 0 if session_row is None or new else session_row["version"]
    row_rules.check_version(scope, expected_version, there)
    if not writes:
        return PutResult(success=True, version=there)
    creation = next((write for write in writes if isinstance(write, CreateSession)), None)
    old, planted = session_row, 0
    if session_row is None or new:
        asked_for = creation or _by_itself(scope, secret())
        _begin(connection, scope, asked_for, now, session_row["id"] if session_row else None)
        session_row = head_of(connection, scope)
        assert session_row is not None
        planted = _clear(connection, session_row["id"])
    head = Head(*(session_row[name] for name in ("id", *sql.MOVING)))
    row_rules.check_key(scope, writes, session_row["key_id"], head.epoch)
    macs = macs_of(scope, secret(), session_row, old)
    if planted:
        macs.of_session(FORGED)
    frameworks, is_new = set(from_json(session_row["frameworks"] or "[]")), new and creation is None
    salt = bytes(session_row["salt"])
    change = TableChange(
        connection, scope, head, secret(), salt, macs, now, frameworks, is_new, now, repeats
    )
    for write in writes:
        HANDLERS[type(write)](change, write)
    return finish(change, session_row, not WHOLE.isdisjoint(map(type, writes)))


def head_of(
    connection: Connection, scope: Scope, *, is_deleted: bool = False
) -> rows.Values | None:
    """The session's row, as the database has it; damaged or not where it is to be deleted."""
    record = sql.HEAD_TO_MOVE.first(connection, reads.key_values(scope))
    if record is None:
        return None
    row = record._asdict()
    return rows.mended_session(row) if is_deleted else rows.session_values(row)


def macs_of(
    scope: Scope, secret: bytes, session_row: rows.Values, before: rows.Values | None
) -> Macs:
    """The group's MACs, with what is to be said of the session's row as it was before."""
    macs = Macs(session_key(secret, bytes(session_row["salt"]), scope))
    if before is None:
        return macs
    if before["head_mac"] is None and before["macs_mac"] is None:
        macs.of_session(OLDER)
    elif of_head(before, chain_keys(secret, scope.key).own) != before["head_mac"]:
        macs.of_session(FORGED)
    return macs


def _clear(connection: Connection, begun: int) -> int:
    """Take out what somebody put in before the session began, and count it: no life begins with it.

    SQLite takes rows of a session that is not there, where nobody tells it to ask.
    """
    key = {"this": begun}
    if not sql.HAS_ROWS.first(connection, key).has_rows:
        return 0
    return sum(command.run(connection, key) for command in sql.CLEAR.values())


def _by_itself(scope: Scope, secret: bytes) -> CreateSession:
    salt = os.urandom(16)
    return CreateSession(salt, Fingerprinter(secret, salt, scope).key_id)


def _begin(
    connection: Connection, scope: Scope, creation: CreateSession, now: str, deleted: int | None
) -> None:
    """Make the session's row; that of a deleted session is taken up again."""
    begun = {
        "salt": creation.salt,
        "key_id": creation.key_id,
        "ephemeral": creation.ephemeral,
        "project_id": scope.project_id,
        "created_at": creation.at or now,
    }
    if deleted is not None:
        sql.BEGIN_ANEW.run(connection, {**begun, "this": deleted})
        return
    values = {
        **reads.key_values(scope),
        **dict.fromkeys(sql.MOVING, 0),
        **begun,
        "chain_head": "",
        "updated_at": now,
        "last_accessed_at": now,
        "access_count": 0,
        "frameworks": None,
        "summary": None,
        "meta": None,
        "macs": None,
        "macs_mac": b"",
        "head_mac": None,
    }
    sql.NEW_SESSION.run(connection, values)


def finish(change: TableChange, row: rows.Values, is_other: bool) -> PutResult:
    """Write the events and the session's row; `is_other` if a write changed that row besides."""
    head, keys = change.head, chain_keys(change.secret, change.scope.key)
    head.version += 1
    carried, total = _written_events(change, row, keys.own)
    values: rows.Values = {name: getattr(head, name) for name in sql.MOVING} | {
        "last_accessed_at": change.now,
        "updated_at": change.updated_at,
        "frameworks": sorted(change.frameworks - {""}) or None,
        "access_count": row["access_count"] + 1,
        "macs": carried,
        "macs_mac": total,
    }
    if is_other:
        row = head_of(change.connection, change.scope, is_deleted=change.ended) or row
    row = row | values | {name: write(values[name]) for name, write in _WRITES.items()}
    values |= {"this": change.row_id, "head_mac": of_head(row, keys.own)}
    change.put(sql.UPDATE_HEAD, [values])
    removed, cleared = change.removed, change.cleared
    return PutResult(success=True, version=head.version, removed=removed, cleared=cleared)


def _written_events(
    change: TableChange, row: rows.Values, key: bytes
) -> tuple[bytes | None, bytes]:
    """Write the events, the first one with the MACs; what is left of these, and the MAC of all of them."""
    macs, total = bytes(row["macs"] or b"") + bytes(change.macs), bytes(row["macs_mac"] or b"")
    if change.ended:
        macs, total = b"", b""
    if not change.events:
        return macs or None, total
    values = [rows.event_values(change.row_id, change.scope, event) for event in change.events]
    if macs:
        values[0]["macs"] = macs
        total = running(total, change.events[0].hash, macs, key)
    change.put(sql.NEW_EVENTS, values)
    return None, total


def _nothing(change: TableChange, write: CreateSession | ForSession) -> None:
    """The session is there already when writes are applied."""


def _append_messages(change: TableChange, write: AppendMessages) -> None:
    ids = [row.message.message_id for row in write.rows if row.message.message_id is not None]
    known_ids = change.repeated(sql.KNOWN_MESSAGES, ids)
    new = row_rules.numbered(write.rows, known_ids, change.head.last_seq)
    change.put(sql.NEW_MESSAGES, [rows.message_values(change.row_id, row) for row in new])
    change.head.last_seq += len(new)
    change.frameworks |= {row.framework for row in new}


def _put_evidence(change: TableChange, write: PutEvidence) -> None:
    row = copied(write.row)
    row.seq = change.head.last_evidence + 1
    change.head.last_evidence += change.put(
        sql.NEW_EVIDENCE, [rows.evidence_values(change.row_id, row)]
    )


def _link_evidence(change: TableChange, write: LinkEvidence) -> None:
    for row in reads.evidence_by_id(change.connection, change.row_id, [write.evidence_id]):
        values = rows.evidence_values(change.row_id, row_rules.linked(row, write))
        with change.changed(tables.evidence, values):
            change.put(sql.LINKED_EVIDENCE, [{**values, "this": change.row_id}])


def _put_blocks(change: TableChange, write: PutBlocks) -> None:
    items = [rows.item_values(change.row_id, "block_id", block) for block in write.blocks]
    change.put(sql.PUT_BLOCKS, items)


def _append_tool_calls(change: TableChange, write: AppendToolCalls) -> None:
    ids = list(dict.fromkeys(row.call.tool_call_id for row in write.rows))
    merged: dict[str, ToolCallRow] = {}
    for record in change.find_rows(sql.KNOWN_CALLS, ids):
        row = rows.call_row(record)
        merged[row.call.tool_call_id] = row
        change.read(tables.tool_calls, {"tool_call_id": row.call.tool_call_id})
    for row in write.rows:
        name = row.call.tool_call_id
        merged[name] = row_rules.merged_call(merged[name], row) if name in merged else row
    change.put(sql.PUT_CALLS, [rows.call_values(change.row_id, merged[name]) for name in ids])


def _append_model_usage(change: TableChange, write: AppendModelUsage) -> None:
    items = [rows.item_values(change.row_id, "model_usage_id", usage) for usage in write.usages]
    change.put(sql.NEW_USAGE, [item | {"turn_id": write.turn_id} for item in items])


def _upsert_tasks(change: TableChange, write: UpsertTasks) -> None:
    items = [rows.item_values(change.row_id, "task_id", task) for task in write.tasks]
    change.put(sql.PUT_TASKS, items)


def _put_turn(change: TableChange, write: PutTurn) -> None:
    if (
        write.turn.status is TurnStatus.ABANDONED
    ):  # as it was found, by somebody else than its maker
        change.read(tables.turns, {"turn_id": write.turn.turn_id})
    change.put(sql.PUT_TURN, [rows.turn_values(change.row_id, write.turn)])
    change.frameworks.add(write.turn.framework)


def _put_cut(change: TableChange, write: PutCut) -> None:
    values = rows.cut_values(change.row_id, write.mark)
    if write.replaces is not None:
        old = {**values, "anchor_message_id": write.replaces}
        change.drop(sql.DROP_CUT, tables.cuts, old)
    change.put(sql.PUT_CUT, [values])


def _put_summary(change: TableChange, write: PutSummary) -> None:
    row_rules.check_epoch(change.scope, write, change.head.epoch)
    for name in write.replaces:
        change.drop(sql.DROP_SUMMARY, tables.summaries, {"anchor_message_id": name})
    change.put(sql.PUT_SUMMARY, [rows.summary_values(change.row_id, write.row)])


def _append_events(change: TableChange, write: AppendEvents) -> None:
    head = change.head
    ids = [event.event_id for event in write.events if event.event_id]
    known_ids = change.repeated(sql.KNOWN_EVENTS, ids) | {event.event_id for event in change.events}
    keys = chain_keys(change.secret, change.scope.key)
    last, end = head.last_event_seq, head.chain_head
    new = row_rules.chained(write.events, known_ids, last, end, keys, change.session_key)
    if new:
        change.events += new
        head.last_event_seq += len(new)
        head.chain_head = new[-1].hash


def _put_placeholders(change: TableChange, write: PutPlaceholders) -> None:
    values = [rows.placeholder_values(change.row_id, item) for item in write.items]
    change.put(sql.NEW_PLACEHOLDERS, values)


def _replace_document(change: TableChange, write: ReplaceDocument) -> None:
    row_rules.check_there(change.scope, change.is_maker and write.fields is not None)
    with change.compared():
        replace_document(change, write.document, write.fields)


def _delete_session(change: TableChange, write: DeleteSession) -> None:
    delete_session(change)
    # Its own row may be damaged, and is to go all the same: no event has this number.
    there = sql.EVENT_NUMBERS.all(change.connection, {"this": change.row_id})
    numbers = [n for (n,) in there if isinstance(n, int) and n < rows.MOST]
    change.head.last_event_seq = max([change.head.last_event_seq, *numbers])
    _append_events(change, AppendEvents([write.event]))


def _delete_evidence(change: TableChange, write: DeleteEvidence) -> None:
    with change.compared():
        is_gone = delete_evidence(change, write)
    if is_gone:
        _append_events(change, AppendEvents([write.event]))


_WRITES = {
    name: partial(tables.raw, tables.sessions.c[name])
    for name in ("chain_head", "updated_at", "last_accessed_at", "frameworks")
}
"""How the session's row keeps what is written to it each time; all else there are numbers and bytes."""

WHOLE: frozenset[type] = frozenset({ReplaceDocument, DeleteSession, DeleteEvidence})
"""What may change the session's row beside its numbers."""
HANDLERS: dict[type, Callable[[TableChange, Any], None]] = {
    CreateSession: _nothing,
    ForSession: _nothing,
    AppendMessages: _append_messages,
    PutEvidence: _put_evidence,
    LinkEvidence: _link_evidence,
    PutBlocks: _put_blocks,
    AppendToolCalls: _append_tool_calls,
    AppendModelUsage: _append_model_usage,
    UpsertTasks: _upsert_tasks,
    PutTurn: _put_turn,
    PutCut: _put_cut,
    PutSummary: _put_summary,
    AppendEvents: _append_events,
    PutPlaceholders: _put_placeholders,
    ReplaceDocument: _replace_document,
    DeleteSession: _delete_session,
    DeleteEvidence: _delete_evidence,
}
