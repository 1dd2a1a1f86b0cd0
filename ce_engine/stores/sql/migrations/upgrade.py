"""Bring an older file to the newest schema."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


FOLDER = Path(__file__).parent


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the revisions that are missing, inside the connection's open transaction."""
    command.upgrade(config(connection), revision)


def config(connection: Connection | None = None) -> Config:
    """Alembic's configuration for the revisions in this package."""
    found = Config()
    found.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    found.set_main_option("path_separator", "os")
    found.attributes["connection"] = connection
    return found
