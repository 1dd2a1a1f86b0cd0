"""The first schema: frozen, as every revision."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op


revision = "0001"
down_revision = None


def _text(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=nullable) for name in names]


def _numbers(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer(), nullable=False) for name in names]


def _flags(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Boolean(), nullable=False) for name in names]


def _bytes(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.LargeBinary(), nullable=nullable)


def _of_session(table: str, columns: list[sa.Column[Any]], unique: list[str]) -> None:
    """A table of a session's rows, in order of first arrival."""
    op.create_table(
        table,
        *_numbers("id", "session"),
        *columns,
        sa.PrimaryKeyConstraint("id"),
        sa.ForeignKeyConstraint(["session"], ["ce_sessions.id"], ondelete="CASCADE"),
        sa.UniqueConstraint("session", *unique),
    )


def _by_number(table: str, columns: list[sa.Column[Any]], unique: str) -> None:
    """A table of a session's rows that have a number in it."""
    op.create_table(
        table,
        *_numbers("session", "seq"),
        *columns,
        sa.PrimaryKeyConstraint("session", "seq"),
        sa.ForeignKeyConstraint(["session"], ["ce_sessions.id"], ondelete="CASCADE"),
        sa.UniqueConstraint("session", unique),
    )


def upgrade() -> None:
    """Make all tables."""
    _sessions()
    _messages()
    _evidence()
    _events()
    _turns()
    _of_session("ce_blocks", _text("block_id", "body"), ["block_id"])
    _of_session("ce_tasks", _text("task_id", "body"), ["task_id"])
    usage = [*_text("model_usage_id"), *_text("turn_id", nullable=True), *_text("body")]
    _of_session("ce_model_usage", usage, ["model_usage_id"])
    calls = [
        *_text("tool_call_id"),
        *_text("host_call_id", "message_id", "turn_id", nullable=True),
        *_flags("ended"),
        *_text("redactor_version", "body"),
    ]
    _of_session("ce_tool_calls", calls, ["tool_call_id"])
    cuts = [
        *_text("lane_key", "kind", "anchor_message_id"),
        *_numbers("budget"),
        *_text("made_at"),
    ]
    _of_session("ce_cuts", cuts, ["lane_key", "kind", "anchor_message_id"])
    placeholders = [*_text("label"), _bytes("mac"), *_numbers("number")]
    _of_session("ce_placeholders", placeholders, ["label", "mac"])


def _sessions() -> None:
    op.create_table(
        "ce_sessions",
        *_numbers("id"),
        *_text("account_id", "user_id", "session_id"),
        *_numbers("version", "epoch", "last_seq", "last_evidence", "last_event_seq"),
        *_text("chain_head"),
        _bytes("salt"),
        *_text("key_id"),
        *_flags("ephemeral"),
        *_text("project_id"),
        *_text("created_at", "updated_at", "last_accessed_at"),
        *_numbers("access_count"),
        *_text("frameworks", "summary", "meta", nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("account_id", "user_id", "session_id"),
    )


def _messages() -> None:
    columns = [
        *_text("message_id", "parent_id", nullable=True),
        *_text("role", "origin"),
        *_text("speaker", "at", nullable=True),
        _bytes("key"),
        _bytes("loose_key"),
        _bytes("host_id", nullable=True),
        *_text("lane_key"),
        *_text("turn_id", nullable=True),
        *_text("request_id", "framework"),
        *_numbers("tokens"),
        *_text("counted_by"),
        *_numbers("length"),
        *_flags("aside", "has_sensitive", "withheld", "late"),
        *_text("redactor_version"),
        *_text("extra", nullable=True),
        *_text("content"),
    ]
    _by_number("ce_messages", columns, "message_id")


def _evidence() -> None:
    columns = [
        *_text("evidence_id"),
        _bytes("dedup_key"),
        *_numbers("tokens"),
        *_text("turn_id", "message_id", nullable=True),
        *_text("lane_key", "project_id"),
        *_flags("shared"),
        *_text("redactor_version", "body", "content"),
    ]
    _by_number("ce_evidence", columns, "evidence_id")


def _events() -> None:
    columns = [
        *_text("event_id", nullable=True),
        *_text("event_type", "kind"),
        *_text("turn_id", "task_id", "tool_call_id", "model_usage_id", nullable=True),
        *_text("request_id", "ts"),
        *_flags("redacted"),
        *_numbers("token_estimate"),
        *_text("nonce", "payload_mac", "hash"),
        *_text("extra", "payload", nullable=True),
    ]
    _by_number("ce_events", columns, "event_id")


def _turns() -> None:
    columns = [
        *_text("turn_id", "request_id", "lane", "status", "purpose", "framework"),
        *_text("parent_turn_id", nullable=True),
        *_numbers("attempt"),
        *_text("opened_at", "closed_at", "owner"),
        *_text("tip_message_id", "answer_message_id", "model_usage_id", nullable=True),
        *_text("attempts", "report", nullable=True),
    ]
    _of_session("ce_turns", columns, ["turn_id"])
    still_open = sa.text("status = 'open'")
    op.create_index(
        "ce_open_turns",
        "ce_turns",
        ["session"],
        sqlite_where=still_open,
        postgresql_where=still_open,
    )
