"""The two files of a session: a snapshot that is replaced whole, and a journal of the writes since.

A write is either one line at the journal's end or a new snapshot, moved into place; the journal is
emptied after that. So whoever reads both, and finds the same snapshot in place before and after, has
read one state, without a lock. A half line at the end is what a killed writer left: it was never
answered, and the next write begins a new journal.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from time import sleep
from typing import Any

from pydantic import ValidationError

from ce_engine.schema.rows import SessionHead
from ce_engine.stores.codec import to_json
from ce_engine.stores.documents.base import Key
from ce_engine.stores.documents.file import faults
from ce_engine.stores.documents.file.record import NOTHING, Data, absorb, difference
from ce_engine.stores.documents.session import Kept
from ce_engine.stores.private import opener


SNAPSHOT, JOURNAL = "session.json", "journal.jsonl"
FORMAT = 1
_DRAFT = f"{SNAPSHOT}.new"

JOURNAL_BYTES = 64 * 1024
"""A journal may grow to this, or to the size of its snapshot."""

_KEY = ("account_id", "user_id", "session_id")
_TRIES = 100
_PAUSE_S = 0.002
_NO_RECORD = (ValueError, TypeError, KeyError, AttributeError)

Identity = tuple[int, int, int]
"""Number, time and size of a file: another snapshot at the same path has another one."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A session as its files have it.

    Attributes:
        offset: bytes of the journal that are in it.
        torn: a half line follows them.
        passed: there are lines that the snapshot has already; what they say may be deleted since.
    """

    key: Key
    kept: Kept
    snapshot: Identity
    offset: int = 0
    torn: bool = False
    passed: bool = False


def load(folder: Path, known: Loaded | None = None) -> Loaded | None:
    """The session in a folder, `None` if there is none; of what is `known` only the news is read.

    Raises:
        StoreUnavailableError: a file is damaged.
        MigrationError: a newer release wrote it.
    """
    snapshot, journal = folder / SNAPSHOT, folder / JOURNAL
    for _ in range(_TRIES):
        found = identity(snapshot)
        if known is not None and known.snapshot != found:
            known = None
        text = b"" if known or not found else content(snapshot) or b""
        tail = content(journal, known.offset if known else 0)
        if tail is None:  # shorter than it was: somebody took lines away
            known = None
        elif identity(snapshot) == found:
            if found is None:
                if b"\n" in tail:
                    raise faults.damaged(snapshot, "it is gone, and its journal is there")
                return None
            return _with_lines(known or _parsed(snapshot, text, found), journal, tail)
    raise faults.damaged(snapshot, "it is replaced again and again while it is read")


def _parsed(path: Path, text: bytes, identity: Identity) -> Loaded:
    try:
        record = json.loads(text)
        if (found := record.pop("format")) != FORMAT:
            raise faults.newer(path, found, FORMAT)
        account, user, session = (str(record.pop(name)) for name in _KEY)
        kept = Kept(SessionHead())
        absorb(kept, record)
        if not kept.head.version:
            raise KeyError("head")
    except _NO_RECORD as error:
        raise faults.damaged(path, _where(error)) from None
    return Loaded((account, user, session), kept, identity)


def _with_lines(loaded: Loaded, path: Path, tail: bytes) -> Loaded:
    *lines, rest = tail.split(b"\n")
    if not tail:
        return loaded
    kept, passed = loaded.kept.draft(), loaded.passed
    for line in lines:
        last = kept.head.version
        try:
            record = json.loads(line)
            version = record["head"]["version"]
            if version > last + 1:
                raise faults.damaged(path, f"version {version} follows version {last}")
            if version > last:  # else its writer was killed between the two files
                absorb(kept, record)
            else:
                passed = True
        except _NO_RECORD as error:
            raise faults.damaged(path, f"after version {last}: {_where(error)}") from None
    offset = loaded.offset + len(tail) - len(rest)
    return replace(loaded, kept=kept, offset=offset, torn=bool(rest), passed=passed)


def _where(error: Exception) -> str:
    """What is wrong with a record, without its content."""
    if isinstance(error, ValidationError):
        return f"{error.title} at {error.errors(include_input=False)[0]['loc']}"
    return error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__


def write(folder: Path, key: Key, old: Loaded | None, kept: Kept) -> Loaded:
    """Put the session's new state to its files; the caller holds its lock and has loaded `old`."""
    if old is None or old.torn or old.passed:
        return write_snapshot(folder, key, old, kept)
    line = f"{to_json(difference(old.kept, kept))}\n".encode()
    if old.offset + len(line) > max(JOURNAL_BYTES, old.snapshot[-1]):
        return write_snapshot(folder, key, old, kept)
    with open(folder / JOURNAL, "ab", buffering=0, opener=opener) as file:
        write_all(file, line)
    return replace(old, kept=kept, offset=old.offset + len(line))


def write_snapshot(folder: Path, key: Key, old: Loaded | None, kept: Kept) -> Loaded:
    """Replace the snapshot and begin a new journal."""
    path = folder / SNAPSHOT
    draft = folder / _DRAFT
    names: Data = dict(zip(_KEY, key, strict=True))
    try:
        with open(draft, "wb", buffering=0, opener=opener) as file:
            write_all(file, page({"format": FORMAT, **names, **difference(NOTHING, kept)}))
            if old is not None:  # not even a power failure may take what was there before
                os.fsync(file.fileno())
        move(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    with suppress(OSError):  # else its lines are passed over, as of before
        _empty_journal(folder)
    found = identity(path)
    return Loaded(key, kept, found or (0, 0, 0))


def has_remains(folder: Path) -> bool:
    """Whether `remove_remains` may have something to do; a look at the files' names and sizes."""
    journal = identity(folder / JOURNAL)
    return (journal is not None and journal[-1] > 0) or (folder / _DRAFT).exists()


def remove_remains(folder: Path, found: Loaded | None) -> None:
    """Take away what killed writers left and nobody reads; the caller holds the lock."""
    (folder / _DRAFT).unlink(missing_ok=True)
    if found is not None and (found.torn or found.passed):
        write_snapshot(folder, found.key, found, found.kept)
        _empty_journal(folder)


def _empty_journal(folder: Path) -> None:
    with (
        suppress(FileNotFoundError),
        open(folder / JOURNAL, "r+b", buffering=0, opener=opener) as file,
    ):
        os.truncate(file.fileno(), 0)


def move(draft: Path, path: Path) -> None:
    """Put a draft into its place, in one step."""
    for _ in range(_TRIES if os.name == "nt" else 0):  # there a reader's open file is in the way
        with suppress(PermissionError):
            draft.replace(path)
            return
        sleep(_PAUSE_S)
    draft.replace(path)


def page(record: Data) -> bytes:
    """JSON for people: a line for each value and for each item of a list."""
    parts = (f"{to_json(name)}: {_lines(value)}" for name, value in record.items())
    return "{{\n{}\n}}\n".format(",\n".join(parts)).encode()


def _lines(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return to_json(value)
    return "[\n{}\n]".format(",\n".join(map(to_json, value)))


def write_all(file: FileIO, data: bytes) -> None:
    """Write to the last byte."""
    # Not through a buffer: after an error that would write the rest when the file is closed.
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def identity(path: Path) -> Identity | None:
    """Which file is at the path now; `None` if there is none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def content(path: Path, offset: int = 0) -> bytes | None:
    """What a file has after `offset`; `None` if it ends before, nothing if it is not there."""
    try:
        with open(path, "rb", opener=opener) as file:
            if os.fstat(file.fileno()).st_size < offset:
                return None
            if offset:
                file.seek(offset)
            return file.read()
    except FileNotFoundError:
        return None if offset else b""
