"""MACs of content with the events, and of the session's row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make their columns; what is there already has no MACs, which `ce verify` says."""
    for table, names in (
        ("ce_events", ("macs",)),
        ("ce_sessions", ("macs", "macs_mac", "head_mac")),
    ):
        for name in names:
            op.add_column(table, sa.Column(name, sa.LargeBinary()))
