"""Summaries, each with the messages that it stands for (A-16)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make their table."""
    op.create_table(
        "ce_summaries",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("session", sa.Integer(), nullable=False),
        sa.Column("anchor_message_id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.ForeignKeyConstraint(["session"], ["ce_sessions.id"], ondelete="CASCADE"),
        sa.UniqueConstraint("session", "anchor_message_id"),
    )
