"""Ids, times, hashes and data in few bytes; events without a row number beside their own."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from ce_engine.stores.codec import from_json, unescape
from ce_engine.stores.tables.packing import pack, shorten


revision = "0004"
down_revision = "0003"

# Of each table the texts, and the data, that are kept in another form now.
_TURN = (
    "turn_id request_id purpose framework parent_turn_id opened_at closed_at tip_message_id "
    "answer_message_id model_usage_id"
)
_EVENT = (
    "event_id event_type kind turn_id task_id tool_call_id model_usage_id request_id ts nonce "
    "payload_mac hash"
)
CHANGED = {
    "ce_messages": (
        "message_id parent_id role origin at turn_id request_id framework counted_by redactor_version",
        "extra",
    ),
    "ce_evidence": ("evidence_id turn_id message_id redactor_version", "body"),
    "ce_blocks": ("block_id", "body"),
    "ce_tasks": ("task_id", "body"),
    "ce_model_usage": ("model_usage_id turn_id", "body"),
    "ce_tool_calls": ("tool_call_id message_id turn_id redactor_version", "body"),
    "ce_summaries": ("anchor_message_id", "body"),
    "ce_turns": (
        _TURN,
        "attempts report",
    ),
    "ce_events": (
        _EVENT,
        "extra payload",
    ),
}


def _short(text: str | None) -> bytes | None:
    return None if text is None else shorten(unescape(text))


def _packed(text: str | None) -> bytes | None:
    return None if text is None else pack(from_json(text))


def upgrade() -> None:
    """Make the tables anew, and their rows' values smaller on the way."""
    driver: Any = op.get_bind().connection.driver_connection
    driver.create_function("ce_short", 1, _short, deterministic=True)
    driver.create_function("ce_packed", 1, _packed, deterministic=True)
    for table, (texts, data) in CHANGED.items():
        assignments = [f"{name} = ce_short({name})" for name in texts.split()]
        assignments += [f"{name} = ce_packed({name})" for name in data.split()]
        op.execute(sa.text(f"UPDATE {table} SET {', '.join(assignments)}"))  # noqa: S608 - names of ours
        options = {"sqlite_with_rowid": False} if table == "ce_events" else {}
        with op.batch_alter_table(table, recreate="always", table_kwargs=options) as batch:
            for name in f"{texts} {data}".split():
                batch.alter_column(name, type_=sa.LargeBinary())
