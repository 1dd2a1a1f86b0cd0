"""What is written: one group of writes as one function of a connection, inside one transaction."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from ce_engine.schema.ids import Fingerprinter, chain_key
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
from ce_engine.stores import rules
from ce_engine.stores.codec import from_json
from ce_engine.stores.tables import reads, rows
from ce_engine.stores.tables import statements as sql
from ce_engine.stores.tables.change import Change, Head
from ce_engine.stores.tables.deleting import delete_evidence, delete_session
from ce_engine.stores.tables.replacing import replace_document


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
    found = sql.HEAD.first(connection, reads.key_values(scope))
    new = found is None or not found.salt
    there = 0 if found is None or new else found.version
    rules.check_version(scope, expected_version, there)
    if not writes:
        return PutResult(success=True, version=there)
    asked = next((write for write in writes if isinstance(write, CreateSession)), None)
    if new:
        _begin(
            connection,
            scope,
            asked or _by_itself(scope, secret()),
            now,
            found.id if found else None,
        )
        found = sql.HEAD.first(connection, reads.key_values(scope))
    _, key_id, frameworks, *numbers = found
    head = Head(*numbers)
    rules.check_key(scope, writes, key_id, head.epoch)
    known, made = set(from_json(frameworks or "[]")), new and asked is None
    change = Change(connection, scope, head, secret, now, known, made, now, repeats)
    for write in writes:
        HANDLERS[type(write)](change, write)
    return _finish(change)


def _by_itself(scope: Scope, secret: bytes) -> CreateSession:
    salt = os.urandom(16)
    return CreateSession(salt, Fingerprinter(secret, salt, scope).key_id)


def _begin(
    connection: Connection, scope: Scope, asked: CreateSession, now: str, deleted: int | None
) -> None:
    """Make the session's row; that of a deleted session is taken up again."""
    begun = {
        "salt": asked.salt,
        "key_id": asked.key_id,
        "ephemeral": asked.ephemeral,
        "project_id": scope.project_id,
        "created_at": asked.at or now,
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
    }
    sql.NEW_SESSION.run(connection, values)


def _finish(change: Change) -> PutResult:
    head = change.head
    head.version += 1
    values = {name: getattr(head, name) for name in ("this", *sql.MOVING)}
    values |= {"now": change.now, "updated_at": change.updated_at}
    values["frameworks"] = sorted(change.frameworks - {""})
    change.put(sql.UPDATE_HEAD, [values])
    return PutResult(success=True, version=head.version, removed=change.removed)


def _nothing(change: Change, write: CreateSession | ForSession) -> None:
    """The session is there already when writes are applied."""


def _append_messages(change: Change, write: AppendMessages) -> None:
    ids = [row.message.message_id for row in write.rows if row.message.message_id is not None]
    known = change.repeated(sql.KNOWN_MESSAGES, ids)
    new = rules.numbered(write.rows, known, change.head.last_seq)
    change.put(sql.NEW_MESSAGES, [rows.message_values(change.this, row) for row in new])
    change.head.last_seq += len(new)
    change.frameworks |= {row.framework for row in new}


def _put_evidence(change: Change, write: PutEvidence) -> None:
    row = replace(write.row, seq=change.head.last_evidence + 1)
    change.head.last_evidence += change.put(
        sql.NEW_EVIDENCE, [rows.evidence_values(change.this, row)]
    )


def _link_evidence(change: Change, write: LinkEvidence) -> None:
    for row in reads.evidence_by_id(change.connection, change.this, [write.evidence_id]):
        values = rows.evidence_values(change.this, rules.linked(row, write))
        change.put(sql.LINKED_EVIDENCE, [{**values, "this": change.this}])


def _put_blocks(change: Change, write: PutBlocks) -> None:
    items = [rows.item_values(change.this, "block_id", block) for block in write.blocks]
    change.put(sql.PUT_BLOCKS, items)


def _append_tool_calls(change: Change, write: AppendToolCalls) -> None:
    ids = list(dict.fromkeys(row.call.tool_call_id for row in write.rows))
    merged: dict[str, ToolCallRow] = {}
    for found in change.known(sql.KNOWN_CALLS, ids):
        row = rows.call_row(found)
        merged[row.call.tool_call_id] = row
    for row in write.rows:
        name = row.call.tool_call_id
        merged[name] = rules.merged_call(merged[name], row) if name in merged else row
    change.put(sql.PUT_CALLS, [rows.call_values(change.this, merged[name]) for name in ids])


def _append_model_usage(change: Change, write: AppendModelUsage) -> None:
    items = [rows.item_values(change.this, "model_usage_id", usage) for usage in write.usages]
    change.put(sql.NEW_USAGE, [item | {"turn_id": write.turn_id} for item in items])


def _upsert_tasks(change: Change, write: UpsertTasks) -> None:
    items = [rows.item_values(change.this, "task_id", task) for task in write.tasks]
    change.put(sql.PUT_TASKS, items)


def _put_turn(change: Change, write: PutTurn) -> None:
    change.put(sql.PUT_TURN, [rows.turn_values(change.this, write.turn)])
    change.frameworks.add(write.turn.framework)


def _put_cut(change: Change, write: PutCut) -> None:
    values = rows.cut_values(change.this, write.mark)
    if write.replaces is not None:
        old = {"this": change.this, **values, "anchor_message_id": write.replaces}
        change.put(sql.DROP_CUT, [old])
    change.put(sql.PUT_CUT, [values])


def _put_summary(change: Change, write: PutSummary) -> None:
    rules.check_epoch(change.scope, write, change.head.epoch)
    change.put(sql.DROP_SUMMARY, [{"this": change.this, "one": name} for name in write.replaces])
    change.put(sql.PUT_SUMMARY, [rows.summary_values(change.this, write.row)])


def _append_events(change: Change, write: AppendEvents) -> None:
    head = change.head
    ids = [event.event_id for event in write.events if event.event_id]
    known = change.repeated(sql.KNOWN_EVENTS, ids)
    key = chain_key(change.secret())
    new = rules.chained(write.events, known, head.last_event_seq, head.chain_head, key)
    if new:
        change.put(sql.NEW_EVENTS, [rows.event_values(change.this, change.scope, e) for e in new])
        head.last_event_seq += len(new)
        head.chain_head = new[-1].hash


def _put_placeholders(change: Change, write: PutPlaceholders) -> None:
    values = [rows.placeholder_values(change.this, item) for item in write.items]
    change.put(sql.NEW_PLACEHOLDERS, values)


def _replace_document(change: Change, write: ReplaceDocument) -> None:
    rules.check_there(change.scope, change.made and write.fields is not None)
    replace_document(change, write.document, write.fields)


def _delete_session(change: Change, write: DeleteSession) -> None:
    delete_session(change)
    _append_events(change, AppendEvents([write.event]))


def _delete_evidence(change: Change, write: DeleteEvidence) -> None:
    if delete_evidence(change, write):
        _append_events(change, AppendEvents([write.event]))


HANDLERS: dict[type, Callable[[Change, Any], None]] = {
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
