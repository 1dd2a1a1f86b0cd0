"""How a session, or a piece of evidence, is deleted, and how its bytes leave the file (A-30)."""

from __future__ import annotations

from collections.abc import Sequence

from ce_engine.schema.rows import DeleteEvidence
from ce_engine.stores import row_rules
from ce_engine.stores.erasing import Erasing
from ce_engine.stores.tables import reads, rows, tables
from ce_engine.stores.tables import statements as sql
from ce_engine.stores.tables.compiled_statements import Command
from ce_engine.stores.tables.table_change import TableChange


_COUNTED = (tables.messages, tables.evidence, tables.tool_calls, tables.turns)


def delete_session(change: TableChange) -> None:
    """Delete all rows of the session and its key; its events keep their envelopes."""
    row_rules.check_there(change.scope, change.made)
    this = {"this": change.this}
    counts = {table: change.put(command, [this]) for table, command in sql.CLEAR.items()}
    change.removed = {
        name: counts[table] for name, table in zip(row_rules.REMOVED, _COUNTED, strict=True)
    }
    change.put(sql.EMPTY_EVENTS, [this])
    change.put(sql.EMPTY_MACS, [this])
    change.put(sql.END_SESSION, [this])
    change.frameworks = set()
    change.ended = True
    _deleted(change)


def delete_evidence(change: TableChange, write: DeleteEvidence) -> bool:
    """Delete the content of a piece of evidence; false if there is none."""
    row_rules.check_there(change.scope, change.made)
    for row in reads.evidence_by_id(change.connection, change.this, [write.evidence_id]):
        gone = row_rules.without_content(row.evidence, change.now)
        if gone is None:
            continue
        values = {"this": change.this, "one": write.evidence_id}
        change.put(sql.EMPTY_EVIDENCE, [values | {"body": rows.evidence_body(gone)}])
        if row.message_id is not None:
            _empty_message(change, row.message_id)
        blocks = reads.blocks(change.connection, change.this)
        left = row_rules.not_resting_on(blocks, write.evidence_id)
        if len(left) < len(blocks):
            items = [rows.item_values(change.this, "block_id", block) for block in left]
            change.refill(tables.blocks, sql.PUT_BLOCKS, items)
        change.removed = {"evidences": 1 + _delete_summaries(change)}
        _erase(change, Erasing.of(row.evidence.content, change.now))
        for number in write.events:
            change.put(sql.EMPTY_EVENT, [{"this": change.this, "number": number}])
        _deleted(change)
        return True
    return False


def _erase(change: TableChange, erasing: Erasing) -> None:
    """Take a deleted text out of all that is left."""
    connection, this = change.connection, change.this

    def put(command: Command, values: Sequence[rows.Values]) -> None:
        change.put(command, [{**each, "this": this} for each in values])

    messages = erasing.changed(reads.messages(connection, this), erasing.message)
    texts = [rows.message_values(this, row) | {"number": row.message.seq} for row in messages]
    put(sql.TEXT_OF_MESSAGE, texts)
    evidence = erasing.changed(reads.evidence(connection, this), erasing.evidence)
    put(sql.LINKED_EVIDENCE, [rows.evidence_values(this, row) for row in evidence])
    blocks = erasing.changed(reads.blocks(connection, this), erasing.block)
    put(sql.PUT_BLOCKS, [rows.item_values(this, "block_id", block) for block in blocks])
    calls = erasing.changed(reads.calls(connection, this), erasing.tool_call)
    put(sql.PUT_CALLS, [rows.call_values(this, row) for row in calls])
    tasks = erasing.changed(reads.tasks(connection, this), erasing.task)
    put(sql.PUT_TASKS, [rows.item_values(this, "task_id", task) for task in tasks])
    usages = erasing.changed(reads.usages(connection, this), erasing.usage)
    bodies = [rows.item_values(this, "model_usage_id", each) for each in usages]
    put(sql.BODY_OF_USAGE, [each | {"one": each["model_usage_id"]} for each in bodies])
    turns = erasing.changed(reads.turns(connection, this), erasing.turn)
    reports = [rows.turn_values(this, row) for row in turns]
    put(sql.REPORT_OF_TURN, [each | {"one": each["turn_id"]} for each in reports])
    change.cleared = erasing.cleared


def _empty_message(change: TableChange, message_id: str) -> None:
    """Its text goes, and what was kept of its pictures and files."""
    this = {"this": change.this, "one": message_id}
    extra = dict(change.connection.execute(sql.EXTRA_OF_MESSAGE, this).scalar() or {})
    extra.pop("attachments", None)
    change.put(sql.EMPTY_MESSAGE, [this | {"extra": extra}])


def _delete_summaries(change: TableChange) -> int:
    this, count = {"this": change.this}, 0
    change.put(sql.CLEAR[tables.summaries], [this])
    change.put(sql.SET_SUMMARY, [this | {"summary": None}])
    for row in reads.evidence(change.connection, change.this):
        gone = row_rules.without_content(row.evidence, change.now)
        if row_rules.is_summary(row.evidence) and gone is not None:
            values = {"one": gone.evidence_id, "body": rows.evidence_body(gone)}
            count += change.put(sql.EMPTY_EVIDENCE, [this | values])
    return count


def _deleted(change: TableChange) -> None:
    change.head.epoch += 1
