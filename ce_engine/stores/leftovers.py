"""Searches every byte of a store's files for what was deleted from it (A-30, B-08)."""

from __future__ import annotations

import mmap
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from ce_engine.errors import ConfigError, StoreUnavailableError
from ce_engine.stores.private_files import drafts_of
from ce_engine.stores.urls import is_server, local_path, masked, scheme_of


LEAST = 16
"""Bytes of a value that is looked for; a shorter one may stand anywhere by chance."""

MOST = 256
"""Bytes of a value that are looked for."""

_STRING = re.compile(rb'"((?:[^"\\]|\\.){%d,})"' % LEAST)
_SIDE_FILES = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A value that was deleted, and stands in a file all the same: where, never what."""

    path: str
    offset: int
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Search:
    """What a search came to: in so many files and bytes, for so many values."""

    files: int
    bytes: int
    values: int
    leftovers: list[Leftover]


class StoreFiles:
    """The files of a store at a URL, and the values in them as they lie there: packed, sealed or plain.

    Raises:
        ConfigError: the store is a server's, whose bytes cannot be read from here, or this process's memory.
    """

    def __init__(self, url: str) -> None:
        if scheme_of(url) == "memory" or is_server(url):
            raise ConfigError(
                f"the bytes of {masked(url)} cannot be searched from here: it has no file. Leave the search "
                "out; what a server's own logs and backups keep is the server's. --rewrite writes PostgreSQL's tables anew"
            )
        self._path = local_path(url)
        self._is_folder = scheme_of(url) == "file"

    def paths(self) -> list[Path]:
        """All files of the store but its key, those that a database has beside it included.

        So are copies that a restore left there which was killed.
        """
        if self._is_folder:
            folders = [self._path, *(path for path, _ in drafts_of(self._path.resolve()))]
            return [file for folder in folders for file in _files(folder)]
        beside = [self._path.with_name(self._path.name + end) for end in _SIDE_FILES]
        drafts = (path for path, _ in drafts_of(self._path) if path.suffix != ".key")
        return [path for path in (self._path, *beside, *drafts) if path.is_file()]

    def values(self) -> set[bytes]:
        """The beginning of each value that is long enough, once."""
        values = self._strings() if self._is_folder else self._columns()
        return {value[:MOST] for value in values if len(value) >= LEAST}

    def _strings(self) -> Iterator[bytes]:
        for path in _files(self._path):
            yield from _STRING.findall(path.read_bytes())

    def _columns(self) -> Iterator[bytes]:
        if not self._path.exists():
            return
        try:
            with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)) as database:
                tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                for (table,) in tables.fetchall():
                    quoted = table.replace('"', '""')
                    for row in database.execute(f'SELECT * FROM "{quoted}"'):  # noqa: S608 - its own names
                        yield from map(_as_stored, row)
        except sqlite3.Error as error:
            raise StoreUnavailableError(f"the store's file cannot be read: {error}") from error


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _as_stored(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else b""


def spelled(texts: Iterable[str]) -> set[bytes]:
    """The beginnings of texts as a file may have them: plain, and as JSON writes them."""
    spellings = set()
    for text in texts:
        # What JSON escapes stands in no file as it is: the longest piece without it will do.
        piece = max(re.split(r'["\\\x00-\x1f\x7f]+', text), key=len)
        plain = piece.encode("utf-8", "surrogatepass")[:MOST]
        escaped = piece.encode("ascii", "backslashreplace")[:MOST]
        spellings |= {spelling for spelling in (plain, escaped) if len(spelling) >= LEAST}
    return spellings


def search(
    files: Iterable[StoreFiles],
    values: AbstractSet[bytes],
    advance: Callable[[], None] = lambda: None,
) -> Search:
    """Look for values at every byte of every file; `advance` is called for each file."""
    anchors: dict[bytes, list[bytes]] = {}
    for value in values:
        anchors.setdefault(value[:LEAST], []).append(value)
    matches, count, size = list[Leftover](), 0, 0
    for path in [path for store_files in files for path in store_files.paths()]:
        count, size = count + 1, size + path.stat().st_size
        matches += _search_file(path, anchors)
        advance()
    return Search(count, size, len(values), matches)


def _search_file(path: Path, anchors: dict[bytes, list[bytes]]) -> Iterator[Leftover]:
    if not anchors or not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # A window at every byte: as slow for one value as for a hundred thousand, and never slower.
        for start in range(0, len(data), 1 << 20):
            block = data[start : start + (1 << 20) + LEAST - 1]
            for offset in range(len(block) - LEAST + 1):
                near = anchors.get(block[offset : offset + LEAST])
                if near is None:
                    continue
                at = start + offset
                for value in near:
                    if data[at : at + len(value)] == value:
                        yield Leftover(str(path), at, value)
                        break
