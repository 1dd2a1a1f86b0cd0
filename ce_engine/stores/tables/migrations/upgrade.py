"""Bring an older file to the newest schema."""

from __future__ import annotations

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from ce_engine.runtime.fork import renew_after_fork


FOLDER = Path(__file__).parent


class _Turns:
    """Alembic keeps the connection of a run in its module: two runs at once would share it."""

    def __init__(self) -> None:
        self.renew()
        renew_after_fork(self.renew)

    def renew(self) -> None:
        self.lock = threading.Lock()


_turns = _Turns()


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the revisions that are missing, inside the connection's open transaction."""
    with _turns.lock:
        command.upgrade(config(connection), revision)


def config(connection: Connection | None = None) -> Config:
    """Alembic's configuration for the revisions in this package."""
    configuration = Config()
    configuration.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    configuration.set_main_option("path_separator", "os")
    configuration.attributes["connection"] = connection
    return configuration
