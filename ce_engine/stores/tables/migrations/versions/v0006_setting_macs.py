"""MACs of what owners set."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make their column; what is there already has no MACs, which `ce verify` says."""
    op.add_column("ce_settings", sa.Column("macs", sa.LargeBinary()))
