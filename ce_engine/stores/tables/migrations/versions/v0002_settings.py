"""Settings of owners, beside all sessions: frozen, as every revision."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table."""
    key = ("account_id", "user_id", "project_id", "name")
    op.create_table(
        "ce_settings",
        *(sa.Column(name, sa.Text(), nullable=False) for name in key),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("value", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint(*key),
    )
