"""One group of writes on its way into the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table

from ce_engine.schema.events import Event
from ce_engine.schema.ids import session_key
from ce_engine.schema.scope import Scope
from ce_engine.stores.tables import reads, rows, tables
from ce_engine.stores.tables import statements as sql
from ce_engine.stores.tables.compiled_statements import Command, left_out
from ce_engine.stores.tables.macs import CONTENT, Content, Macs, Row


@dataclass(slots=True)
class Head:
    """The part of the session's row that a group moves; `row_id` is the row's number."""

    row_id: int
    version: int = 0
    epoch: int = 0
    last_seq: int = 0
    last_evidence: int = 0
    last_event_seq: int = 0
    chain_head: str = ""


@dataclass(slots=True)
class TableChange:
    """One group on its way into the tables."""

    connection: Connection
    scope: Scope
    head: Head
    secret: bytes
    salt: bytes
    macs: Macs
    now: str
    frameworks: set[str]
    is_maker: bool
    """The group itself made the session, without being told to."""
    updated_at: str

    repeats: bool
    """Some rows of the group may be there already: ask which. Seldom so, and it costs a query a table."""
    removed: dict[str, int] = field(default_factory=dict)
    cleared: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    """Numbered and linked; they are written last, with the MACs of all else."""
    ended: bool = False
    """The session was deleted: nothing of before has a MAC any more."""
    is_comparing: bool = False

    @property
    def row_id(self) -> int:
        return self.head.row_id

    def put(self, command: Command, values: Sequence[rows.Values]) -> int:
        """Write the rows; how many of them went in.

        Raises:
            FileDamagedError: one did not, and is not there.
        """
        done = command.run(self.connection, *values, wrote=self._wrote(values))
        if command.content is not None and done < len(values):
            self._see_there(command.content, values)
        return done

    def _see_there(self, content: Content, values: Sequence[rows.Values]) -> None:
        """See that those that did not go in were there already: a rule of the database's may have left them out."""
        if any(self._now(content, each) is None for each in values):
            raise left_out(content.table.name)

    def _wrote(
        self, values: Sequence[rows.Values]
    ) -> Callable[[Content, Sequence[Row], int], None] | None:
        def wrote(content: Content, written_rows: Sequence[Row], done: int) -> None:
            if done == len(written_rows):
                self.macs.put(content, written_rows)
            elif (
                done
            ):  # of several some were there already: those that are as they were to be went in
                there = zip(written_rows, values, strict=True)
                self.macs.put(content, [r for r, v in there if self._now(content, v) == tuple(r)])

        return None if self.is_comparing else wrote

    def _now(self, content: Content, values: rows.Values) -> Row | None:
        row = sql.ONE_ROW[content.table].first(self.connection, {**values, "this": self.row_id})
        return None if row is None else tuple(row)

    def read(self, table: Table, values: rows.Values) -> None:
        """Take note of what a row, which is going to be changed, is now; nothing if it is not there."""
        content = CONTENT[table]
        if (row := self._now(content, values)) is not None:
            self.macs.was(content, row)

    @contextmanager
    def changed(self, table: Table, values: rows.Values) -> Iterator[None]:
        """One row is changed in here, by a statement that does not write it whole."""
        content = CONTENT[table]
        self.read(table, values)
        yield
        if (row := self._now(content, values)) is not None:
            self.macs.put(content, [row])

    def session_key(self) -> bytes:
        """The key of the events' payloads."""
        return session_key(self.secret, self.salt, self.scope)

    def drop(self, command: Command, table: Table, values: rows.Values) -> None:
        """Delete a row, if it is there."""
        content = CONTENT[table]
        if command.run(self.connection, {**values, "this": self.row_id}):
            names = [content.names[place] for place in content.key]
            self.macs.drop(content, [tables.raw(table.c[name], values[name]) for name in names])

    @contextmanager
    def compared(self) -> Iterator[None]:
        """What is done in here may change any row, by any statement: all are read before and after."""
        before = self._marks()
        self.is_comparing = True
        yield
        self.is_comparing = False
        after = self._marks()
        for content in CONTENT.values():
            self.macs.compare(content, before[content.kind], after[content.kind])

    def _marks(self) -> dict[int, Any]:
        key = {"this": self.row_id}
        return {
            content.kind: self.macs.marks(
                content, sql.ROWS_TO_CHANGE[table].all(self.connection, key)
            )
            for table, content in CONTENT.items()
        }

    def refill(self, table: Table, command: Command, values: Sequence[rows.Values]) -> None:
        """Put these rows in the place of all that the session has in the table."""
        sql.CLEAR[table].run(self.connection, {"this": self.row_id})
        self.put(command, values)

    def find_rows(self, statement: Any, ids: Sequence[str]) -> list[Any]:
        """The rows that `statement` finds for these ids."""
        records: list[Any] = []
        for part in reads.chunks(ids):
            records += self.connection.execute(statement, {"this": self.row_id, "ids": part})
        return records

    def repeated(self, statement: Any, ids: Sequence[str]) -> set[str]:
        """Those of the ids whose rows are there already."""
        return {row[0] for row in self.find_rows(statement, ids)} if self.repeats else set()
