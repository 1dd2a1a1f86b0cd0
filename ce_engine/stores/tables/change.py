"""One group of writes on its way into the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table

from ce_engine.schema.scope import Scope
from ce_engine.stores.tables import reads, rows
from ce_engine.stores.tables import statements as sql
from ce_engine.stores.tables.command import Command


@dataclass(slots=True)
class Head:
    """The part of the session's row that a group moves; `this` is the row's number."""

    this: int
    version: int = 0
    epoch: int = 0
    last_seq: int = 0
    last_evidence: int = 0
    last_event_seq: int = 0
    chain_head: str = ""


@dataclass(slots=True)
class Change:
    """One group on its way into the tables."""

    connection: Connection
    scope: Scope
    head: Head
    secret: Callable[[], bytes]
    now: str
    frameworks: set[str]
    made: bool
    """The group itself made the session, without being told to."""
    updated_at: str

    repeats: bool
    """Some rows of the group may be there already: ask which. Seldom so, and it costs a query a table."""
    removed: dict[str, int] = field(default_factory=dict)

    @property
    def this(self) -> int:
        return self.head.this

    def put(self, command: Command, values: Sequence[rows.Values]) -> int:
        return command.run(self.connection, *values)

    def refill(self, table: Table, command: Command, values: Sequence[rows.Values]) -> None:
        """Put these rows in the place of all that the session has in the table."""
        sql.CLEAR[table].run(self.connection, {"this": self.this})
        self.put(command, values)

    def known(self, statement: Any, ids: Sequence[str]) -> list[Any]:
        """The rows that `statement` finds for these ids."""
        found: list[Any] = []
        for part in reads.chunks(ids):
            found += self.connection.execute(statement, {"this": self.this, "ids": part})
        return found

    def repeated(self, statement: Any, ids: Sequence[str]) -> set[str]:
        """Those of the ids whose rows are there already."""
        return {row[0] for row in self.known(statement, ids)} if self.repeats else set()
