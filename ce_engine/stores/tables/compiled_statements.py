"""Statements that are compiled once: to find, bind and send them anew costs more than the database's own work."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter, methodcaller
from typing import Any, TypeVar

from sqlalchemy import Boolean, Connection, Dialect, LargeBinary, Select, Table, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import Insert

from ce_engine.errors import FileDamagedError
from ce_engine.stores.tables.macs import CONTENT, Content, Row
from ce_engine.stores.tables.tables import StoredForm


T = TypeVar("T")
Values = Mapping[str, Any]
_Bind = tuple[str, Any, Callable[[Any], Any] | None]
"""Name, default, and what makes a value of the driver's of one of ours."""

_count: Callable[[Any], int] = attrgetter("rowcount")
_fetch_one = methodcaller("fetchone")


class _Compiled:
    """A statement as the driver takes it, and how values are bound to it."""

    __slots__ = ("_asks", "_defaults", "_makers", "_values", "names", "positional", "text")

    def __init__(
        self, text: str, binds: Sequence[_Bind], *, positional: bool, asks: bool = False
    ) -> None:
        self.text, self.positional = text, positional
        self.names = [name for name, *_ in binds]
        self._defaults = {name: default for name, default, _ in binds}
        self._values = _taking(self.names)
        self._asks = asks
        self._makers = [(n, make) for n, (*_, make) in enumerate(binds) if make is not None]

    def rows(self, names: Sequence[str]) -> Callable[[Any], Row]:
        """What takes the values of these columns out of bound ones."""
        return itemgetter(*(map(self.names.index, names) if self.positional else names))

    def bound(self, values: Values) -> Any:
        done = [*self._values({**self._defaults, **values})]
        for place, make in self._makers:
            if done[place] is not None:
                done[place] = make(done[place])
        if self._asks:
            done = [bytearray(value) if value.__class__ is bytes else value for value in done]
        return done if self.positional else dict(zip(self.names, done, strict=True))


def _taking(names: Sequence[str]) -> Callable[[Values], Iterable[Any]]:
    """What takes these values out of many; `itemgetter` alone gives no tuple of one."""
    take = itemgetter(*names) if names else None
    if take is None:
        return lambda _: ()
    return take if len(names) > 1 else lambda values: (take(values),)


class _Statement:
    """Compiled for each dialect when it is first needed there."""

    def __init__(self, statement: Any, columns: Iterable[str] = ()) -> None:
        self._statement = statement
        self._columns = list(columns) or None
        self._compiled: dict[str, _Compiled] = {}

    def _for(self, dialect: Dialect) -> _Compiled:
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = self._compile(dialect)
        return compiled

    def _compile(self, dialect: Dialect) -> _Compiled:
        compiled: Any = self._statement.compile(dialect=dialect, column_keys=self._columns)
        names = (
            compiled.positiontup
            if compiled.positional
            else list(dict.fromkeys(compiled.bind_names.values()))
        )
        binds = []
        for name in names:
            bind = compiled.binds[name]
            binds.append((name, compiled.params[name], _processor(bind.type, dialect)))
        asks = dialect.name == "sqlite"  # bytes whether they adapt themselves; bytearrays it takes
        return _Compiled(str(compiled), binds, positional=compiled.positional, asks=asks)


def _processor(kind: Any, dialect: Dialect) -> Callable[[Any], Any] | None:
    """What makes a value of the driver's; of our own types without a way through SQLAlchemy's, which takes longer."""
    if isinstance(kind, StoredForm):
        return kind.write
    if isinstance(kind, LargeBinary):  # bytes, which every driver takes and a MAC is made of
        return None
    if isinstance(kind, Boolean) and not dialect.supports_native_boolean:
        return int
    processor: Callable[[Any], Any] | None = kind.dialect_impl(dialect).bind_processor(dialect)
    return processor


class Command(_Statement):
    """An insert, update or delete. It gives no rows, only how many it changed."""

    content: Content | None = None
    """What the rows are that it writes whole; nothing if it does not."""

    def __init__(
        self, statement: Any, columns: Iterable[str] = (), *, is_exact: bool = False
    ) -> None:
        super().__init__(statement, columns)
        self._rows: dict[str, Callable[[Any], Row]] = {}
        self._is_exact = is_exact
        """Each of the values is a row that is written: fewer are none that were there already."""

    def run(
        self,
        connection: Connection,
        *values: Values,
        wrote: Callable[[Content, Sequence[Row], int], None] | None = None,
    ) -> int:
        """Execute once for each of the values, nothing without any; `wrote` hears of whole rows, and how many went in.

        Raises:
            FileDamagedError: fewer were written than must be.
        """
        if not values:
            return 0
        compiled = self._for(connection.dialect)
        bound = [*map(compiled.bound, values)]
        done = _executed(connection, compiled.text, bound, _count)
        if self._is_exact and 0 <= done < len(bound):  # below 0: a driver that cannot tell
            raise left_out(self._statement.table.name)
        if wrote is not None and self.content is not None:
            wrote(self.content, [*map(self._row(compiled), bound)], done)
        return done

    def _row(self, compiled: _Compiled) -> Callable[[Any], Row]:
        make_row = self._rows.get(compiled.text)
        if make_row is None:
            assert self.content is not None
            make_row = self._rows[compiled.text] = compiled.rows(self.content.names)
        return make_row


class Query(_Statement):
    """A select of one row, as the driver gives it: numbers and words that need no escape."""

    def __init__(self, statement: Select[Any]) -> None:
        super().__init__(statement)
        self._row = _row(statement.selected_columns.keys())

    def first(self, connection: Connection, values: Values) -> Any:
        """The first row, with its columns as attributes, or `None`."""
        compiled = self._for(connection.dialect)
        row = _executed(connection, compiled.text, [compiled.bound(values)], _fetch_one)
        return None if row is None else self._row(*row)

    def all(self, connection: Connection, values: Values) -> list[Row]:
        """All rows."""
        compiled = self._for(connection.dialect)
        return _executed(connection, compiled.text, [compiled.bound(values)], list)


def _row(columns: Sequence[str]) -> Callable[..., Any]:
    return namedtuple("Row", columns)  # noqa: PYI024 - which columns is known only now


def _executed(
    connection: Connection, text: str, bound: Sequence[Any], take: Callable[[Any], T]
) -> T:
    """What is taken of a cursor that has executed; in the connection's transaction, beside SQLAlchemy's own way.

    Raises:
        DBAPIError: as SQLAlchemy raises it; without the values.
    """
    cursor = connection.connection.cursor()
    driver = connection.dialect.loaded_dbapi
    try:
        if len(bound) > 1:
            cursor.executemany(text, bound)
        else:
            cursor.execute(text, bound[0])
        return take(cursor)
    except driver.Error as error:
        raise DBAPIError.instance(
            text, None, error, driver.Error, hide_parameters=True, dialect=connection.dialect
        ) from error
    finally:
        cursor.close()


def begin(connection: Connection, text: str) -> None:
    """Begin a transaction of the driver's; `commit` ends it.

    Raises:
        DBAPIError: it cannot be begun.
    """
    _executed(connection, text, [()], _nothing)


def _nothing(_: object) -> None:
    """What is taken of a statement that gives nothing."""


def commit(connection: Connection) -> None:
    """Commit.

    Raises:
        DBAPIError: it could not; it names no statement.
    """
    if connection.in_transaction():  # something in it went SQLAlchemy's own way
        connection.commit()
        return
    driver = connection.dialect.loaded_dbapi
    try:
        connection.connection.commit()
    except driver.Error as error:
        raise DBAPIError.instance(
            None, None, error, driver.Error, hide_parameters=True, dialect=connection.dialect
        ) from error


def left_out(table: str) -> FileDamagedError:
    """The error where a row that was sent is not there afterwards."""
    return FileDamagedError(
        f"the store's database left out what was to be written to its table {table}: somebody gave it a rule or a "
        "trigger, which is none of ours. Nothing was written. See: ce verify"
    )


def inserting(table: Table, statement: Insert | None = None, *, is_exact: bool = True) -> Command:
    """An insert of all columns but the row's own number; every row goes in, if it `is_exact`."""
    columns = [column.name for column in table.c if column.name != "id"]
    statement = insert(table) if statement is None else statement
    command = Command(statement, columns, is_exact=is_exact)
    command.content = CONTENT.get(table)
    return command
