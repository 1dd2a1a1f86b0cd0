"""What a SQLite file of ours holds: its bytes do not show what is deflated in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import create_engine, select

from ce_engine.stores.tables import tables


def unpacked(path: Path) -> Iterator[str]:
    """Every row of a database, table by table."""
    source = create_engine(f"sqlite:///{path}")
    with source.connect() as connection:
        for table in tables.metadata.sorted_tables:
            yield repr(connection.execute(select(table)).all())
    source.dispose()
