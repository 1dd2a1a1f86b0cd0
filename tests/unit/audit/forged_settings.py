"""What owners set, as who writes the store's file, table or server without the secret may read and change it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ce_engine.stores.documents.redis.server_url import place_of
from ce_engine.stores.urls import folder_path, sqlite_path
from tests import postgres_server
from tests.hosts import redis_host


_NAMES = ("account_id", "user_id", "project_id", "name", "version", "value", "macs")


@dataclass(frozen=True)
class Row:
    """A setting as it lies there: `macs` is nothing where an older release wrote it."""

    account_id: str
    user_id: str
    project_id: str
    name: str
    version: int
    value: Any
    macs: bytes


Change = Callable[[list[Row]], list[Row]]


def forge(url: str, change: Change) -> None:
    """Have in the store what `change` makes of all settings."""
    with _opened(url) as (rows, write):
        made = change(list(rows))
        assert made != rows, "nothing was changed"
        write(made)


def rows_of(url: str) -> list[Row]:
    """All settings of the store."""
    with _opened(url) as (rows, _):
        return list(rows)


@contextmanager
def _opened(url: str) -> Iterator[tuple[list[Row], Callable[[list[Row]], None]]]:
    kinds = {"sqlite": _sqlite, "postgresql": _postgres, "file": _files, "redis": _redis}
    opened = next(opened for kind, opened in kinds.items() if url.startswith(kind))
    with opened(url) as found:
        yield found


def _of_table(values: Sequence[Any]) -> Row:
    account, user, project, name, version, value, macs = values
    data = None if value is None else json.loads(value)
    return Row(account, user, project, name, version, data, bytes(macs or b""))


def _in_table(row: Row) -> list[Any]:
    value = None if row.value is None else json.dumps(row.value)
    return [
        row.account_id,
        row.user_id,
        row.project_id,
        row.name,
        row.version,
        value,
        row.macs or None,
    ]


@contextmanager
def _sqlite(url: str) -> Iterator[tuple[list[Row], Callable[[list[Row]], None]]]:
    with closing(sqlite3.connect(sqlite_path(url))) as connection, connection:
        found = connection.execute(f"SELECT {', '.join(_NAMES)} FROM ce_settings").fetchall()

        def write(rows: list[Row]) -> None:
            connection.execute("DELETE FROM ce_settings")
            marks = ", ".join("?" * len(_NAMES))
            insert = f"INSERT INTO ce_settings ({', '.join(_NAMES)}) VALUES ({marks})"
            connection.executemany(insert, map(_in_table, rows))

        yield [_of_table(each) for each in found], write


@contextmanager
def _postgres(url: str) -> Iterator[tuple[list[Row], Callable[[list[Row]], None]]]:
    with postgres_server.connected(url) as connection:
        found = connection.execute(f"SELECT {', '.join(_NAMES)} FROM ce_settings").fetchall()

        def write(rows: list[Row]) -> None:
            connection.execute("DELETE FROM ce_settings")
            marks = ", ".join(["%s"] * len(_NAMES))
            for row in rows:
                insert = f"INSERT INTO ce_settings ({', '.join(_NAMES)}) VALUES ({marks})"
                connection.execute(insert, _in_table(row))

        yield [_of_table(each) for each in found], write


def _of_page(page: dict[str, Any]) -> list[Row]:
    owner = page["account_id"], page["user_id"]
    return [
        Row(
            *owner,
            item["project_id"],
            item["name"],
            item["version"],
            item["value"],
            bytes.fromhex(item.get("macs", "")),
        )
        for item in page["settings"]
    ]


def _in_page(page: dict[str, Any], rows: list[Row]) -> dict[str, Any]:
    """The page with its owner's rows; without any MACs it is one of an older release."""
    mine = [
        row
        for row in rows
        if (row.account_id, row.user_id) == (page["account_id"], page["user_id"])
    ]
    items = []
    for row in mine:
        item = {name: getattr(row, name) for name in ("project_id", "name", "value", "version")}
        items.append(item | ({"macs": row.macs.hex()} if row.macs else {}))
    return {**page, "format": 2 if any(row.macs for row in mine) else 1, "settings": items}


@contextmanager
def _files(url: str) -> Iterator[tuple[list[Row], Callable[[list[Row]], None]]]:
    paths = sorted(folder_path(url).rglob("settings.json"))
    pages = {path: json.loads(path.read_text(encoding="utf-8")) for path in paths}

    def write(rows: list[Row]) -> None:
        for path, page in pages.items():
            path.write_text(json.dumps(_in_page(page, rows)), encoding="utf-8")

    yield [row for page in pages.values() for row in _of_page(page)], write


@contextmanager
def _redis(url: str) -> Iterator[tuple[list[Row], Callable[[list[Row]], None]]]:
    place = place_of(url)
    with redis_host.client_of(url) as client:
        keys = sorted(client.scan_iter(match=f"{place.owners}*"))
        pages = {key: json.loads(client.lindex(key, 1)) for key in keys}

        def write(rows: list[Row]) -> None:
            for key, page in pages.items():
                client.lset(key, 1, json.dumps(_in_page(page, rows)))
                client.lset(key, 0, "0123456789abcdef")  # so that nobody takes it for what was read

        yield [row for page in pages.values() for row in _of_page(page)], write


def changed(name: str, user: str = "u", **values: Any) -> Change:
    """Other values in one row."""

    def change(rows: list[Row]) -> list[Row]:
        return [
            replace(row, **values) if (row.name, row.user_id) == (name, user) else row
            for row in rows
        ]

    return change
