"""How a session, or a piece of evidence, is deleted, and how its bytes leave the file (A-30)."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.errors import StoreUnavailableError
from ce_engine.schema.rows import DeleteEvidence
from ce_engine.stores import row_rules
from ce_engine.stores.erasing import Erasing
from ce_engine.stores.tables import reads, rows, tables
from ce_engine.stores.tables import statements as sql
from ce_engine.stores.tables.compiled_statements import Command
from ce_engine.stores.tables.table_change import TableChange


_COUNTED = (tables.messages, tables.evidence, tables.tool_calls, tables.turns)


def delete_session(change: TableChange) -> None:
    """Delete all rows of the session and its key; its events keep their envelopes.

    Raises:
        StoreUnavailableError: the database kept some.
    """
    row_rules.check_there(change.scope, change.is_maker)
    key = {"this": change.row_id}
    counts = {table: change.put(command, [key]) for table, command in sql.CLEAR.items()}
    if sql.HAS_ROWS.first(change.connection, key).has_rows:
        raise StoreUnavailableError(
            "the store kept rows that it was to delete: row-level security of the database hides them from this "
            "user's DELETE. Nothing was deleted: give the user a policy for DELETE, or BYPASSRLS."
        )
    change.removed = {
        name: counts[table] for name, table in zip(row_rules.REMOVED, _COUNTED, strict=True)
    }
    change.put(sql.EMPTY_EVENTS, [key])
    change.put(sql.EMPTY_MACS, [key])
    change.put(sql.END_SESSION, [key])
    change.frameworks = set()
    change.ended = True
    _deleted(change)


def delete_evidence(change: TableChange, write: DeleteEvidence) -> bool:
    """Delete the content of a piece of evidence; false if there is none."""
    row_rules.check_there(change.scope, change.is_maker)
    for row in reads.evidence_by_id(change.connection, change.row_id, [write.evidence_id]):
        emptied_evidence = row_rules.without_content(row.evidence, change.now)
        if emptied_evidence is None:
            continue
        values = {"this": change.row_id, "one": write.evidence_id}
        change.put(sql.EMPTY_EVIDENCE, [values | {"body": rows.evidence_body(emptied_evidence)}])
        if row.message_id is not None:
            _empty_message(change, row.message_id)
        blocks = reads.blocks(change.connection, change.row_id)
        left = row_rules.not_resting_on(blocks, write.evidence_id)
        if len(left) < len(blocks):
            items = [rows.item_values(change.row_id, "block_id", block) for block in left]
            change.refill(tables.blocks, sql.PUT_BLOCKS, items)
        change.removed = {"evidences": 1 + _delete_summaries(change)}
        for text in dict.fromkeys([row.evidence.content, *write.texts] * write.everywhere):
            _erase(change, Erasing.of(text, change.now))
        for number in write.events:
            change.put(sql.EMPTY_EVENT, [{"this": change.row_id, "number": number}])
        _deleted(change)
        return True
    return False


def _erase(change: TableChange, erasing: Erasing) -> None:
    """Take a deleted text out of all that is left."""
    connection, session_number = change.connection, change.row_id

    def put(command: Command, values: Sequence[rows.Values]) -> None:
        change.put(command, [{**row_values, "this": session_number} for row_values in values])

    messages = erasing.changed(reads.messages(connection, session_number), erasing.message)
    texts = [
        rows.message_values(session_number, row) | {"number": row.message.seq} for row in messages
    ]
    put(sql.TEXT_OF_MESSAGE, texts)
    evidence = erasing.changed(reads.evidence(connection, session_number), erasing.evidence)
    put(sql.LINKED_EVIDENCE, [rows.evidence_values(session_number, row) for row in evidence])
    blocks = erasing.changed(reads.blocks(connection, session_number), erasing.block)
    put(sql.PUT_BLOCKS, [rows.item_values(session_number, "block_id", block) for block in blocks])
    calls = erasing.changed(reads.calls(connection, session_number), erasing.tool_call)
    put(sql.PUT_CALLS, [rows.call_values(session_number, row) for row in calls])
    tasks = erasing.changed(reads.tasks(connection, session_number), erasing.task)
    put(sql.PUT_TASKS, [rows.item_values(session_number, "task_id", task) for task in tasks])
    usages = erasing.changed(reads.usages(connection, session_number), erasing.usage)
    bodies = [rows.item_values(session_number, "model_usage_id", usage) for usage in usages]
    put(sql.BODY_OF_USAGE, [body | {"one": body["model_usage_id"]} for body in bodies])
    turns = erasing.changed(reads.turns(connection, session_number), erasing.turn)
    reports = [rows.turn_values(session_number, row) for row in turns]
    put(sql.REPORT_OF_TURN, [report | {"one": report["turn_id"]} for report in reports])
    change.cleared = list(dict.fromkeys([*change.cleared, *erasing.cleared]))


def _empty_message(change: TableChange, message_id: str) -> None:
    """Its text goes, and what was kept of its pictures and files."""
    key = {"this": change.row_id, "one": message_id}
    extra = dict(change.connection.execute(sql.EXTRA_OF_MESSAGE, key).scalar() or {})
    extra.pop("attachments", None)
    change.put(sql.EMPTY_MESSAGE, [key | {"extra": extra}])


def _delete_summaries(change: TableChange) -> int:
    key, count = {"this": change.row_id}, 0
    change.put(sql.CLEAR[tables.summaries], [key])
    change.put(sql.SET_SUMMARY, [key | {"summary": None}])
    for row in reads.evidence(change.connection, change.row_id):
        emptied_evidence = row_rules.without_content(row.evidence, change.now)
        if row_rules.is_summary(row.evidence) and emptied_evidence is not None:
            values = {
                "one": emptied_evidence.evidence_id,
                "body": rows.evidence_body(emptied_evidence),
            }
            count += change.put(sql.EMPTY_EVIDENCE, [key | values])
    return count


def _deleted(change: TableChange) -> None:
    change.head.epoch += 1
