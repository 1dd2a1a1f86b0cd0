"""The SQL store: SQLite through SQLAlchemy, its schema through Alembic."""

from __future__ import annotations

from ce_engine.stores.tables.store import SqlStore


__all__ = ["SqlStore"]
