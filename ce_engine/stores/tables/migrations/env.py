"""Alembic's entry: run revisions on the connection that was handed in."""

from __future__ import annotations

from alembic import context

from ce_engine.stores.tables import tables


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=tables.metadata,
    version_table=tables.revisions.name,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
