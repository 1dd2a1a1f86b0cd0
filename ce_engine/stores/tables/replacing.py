"""How a whole document, or some fields of its session, take the place of what is stored."""

from __future__ import annotations

from dataclasses import replace

from ce_engine.schema.document import Session, SessionDocument
from ce_engine.schema.rows import ToolCallRow
from ce_engine.stores import row_rules
from ce_engine.stores.codec import compact
from ce_engine.stores.tables import reads, rows, tables
from ce_engine.stores.tables import statements as sql
from ce_engine.stores.tables.table_change import TableChange


def replace_document(
    change: TableChange, document: SessionDocument, fields: frozenset[str] | None
) -> None:
    """Replace the named fields of the session; everything without names."""
    names = frozenset(Session.model_fields) if fields is None else fields
    change.head.epoch += 1
    if fields is None:  # before the messages: their old contents tell which evidence is unchanged
        _replace_evidence(change, document)
        _replace_blocks_and_meta(change, document)
    session = document.session
    if names & row_rules.SUMMED_UP:
        sql.CLEAR[tables.summaries].run(change.connection, {"this": change.row_id})
    if "messages" in names:
        _replace_messages(change, session)
    if "summary" in names:
        summary = compact(session.summary) if session.summary else None
        change.put(sql.SET_SUMMARY, [{"this": change.row_id, "summary": summary}])
    if "task_state" in names:
        items = [
            rows.item_values(change.row_id, "task_id", task)
            for task in session.task_state.todo_list.tasks
        ]
        change.refill(tables.tasks, sql.PUT_TASKS, items)
    if "tool_state" in names:
        _replace_calls(change, session)
    if "model_usage" in names:
        _replace_usage(change, session)


def _replace_messages(change: TableChange, session: Session) -> None:
    rows_by_id = {
        str(row.message.message_id): row for row in reads.messages(change.connection, change.row_id)
    }
    new, change.head.last_seq = row_rules.replaced(
        session.messages, rows_by_id, change.head.last_seq
    )
    values = [rows.message_values(change.row_id, row) for row in new]
    change.refill(tables.messages, sql.NEW_MESSAGES, values)


def _replace_evidence(change: TableChange, document: SessionDocument) -> None:
    rows_by_id = {
        row.evidence.evidence_id: row for row in reads.evidence(change.connection, change.row_id)
    }
    new = row_rules.kept_evidence(
        document.evidences.values(), rows_by_id, document.session.messages
    )
    values = [rows.evidence_values(change.row_id, row) for row in new]
    change.refill(tables.evidence, sql.NEW_EVIDENCE, values)
    change.head.last_evidence = max(change.head.last_evidence, len(new))


def _replace_blocks_and_meta(change: TableChange, document: SessionDocument) -> None:
    blocks = [
        rows.item_values(change.row_id, "block_id", block) for block in document.context_blocks
    ]
    change.refill(tables.blocks, sql.PUT_BLOCKS, blocks)
    meta = document.meta
    values = {
        "this": change.row_id,
        "meta": compact(meta, {"created_at", "updated_at"}) if meta else None,
        "created_at": (meta.created_at or None) if meta else None,
    }
    change.put(sql.SET_META, [values])
    if meta and meta.updated_at:
        change.updated_at = meta.updated_at


def _replace_calls(change: TableChange, session: Session) -> None:
    result = change.connection.execute(sql.ALL_CALLS, {"this": change.row_id})
    rows_by_id = {row.call.tool_call_id: row for row in map(rows.call_row, result)}
    values = [
        rows.call_values(
            change.row_id, replace(rows_by_id.get(call.tool_call_id, ToolCallRow(call)), call=call)
        )
        for call in session.tool_state.tool_calls
    ]
    change.refill(tables.tool_calls, sql.PUT_CALLS, values)


def _replace_usage(change: TableChange, session: Session) -> None:
    turns = dict(map(tuple, change.connection.execute(sql.KNOWN_USAGE, {"this": change.row_id})))
    values = [
        rows.item_values(change.row_id, "model_usage_id", usage)
        | {"turn_id": turns.get(usage.model_usage_id)}
        for usage in session.model_usage
    ]
    change.refill(tables.model_usage, sql.NEW_USAGE, values)
