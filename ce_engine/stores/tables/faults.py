"""What went wrong with a database file, in words that name the file and the cure."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from ce_engine.errors import (
    ContextEngineError,
    FileDamagedError,
    StoreError,
    StoreUnavailableError,
)


_PRIMARY = 0xFF  # SQLite's extended result codes carry the primary one in the low byte
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_REPEATED = {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY}
_OF_BEFORE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR}
_SAYINGS = {
    sqlite3.SQLITE_READONLY: (
        "is read-only",
        "Give this user write permission for the file, its -wal and -shm and their folder.",
    ),
    sqlite3.SQLITE_PERM: (
        "may not be accessed",
        "Give this user permission for the file and its folder, or name another file.",
    ),
    sqlite3.SQLITE_FULL: (
        "cannot grow: the disk is full",
        "Free some space; what did not fit was not written, the rest is whole.",
    ),
    sqlite3.SQLITE_NOTADB: (
        "is no SQLite database",
        "It was left as it is. Name another file, or move this one away.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "is a damaged SQLite database",
        "It was left as it is. Restore a backup, or move it away and try `sqlite3 FILE .recover`.",
    ),
    sqlite3.SQLITE_INTERRUPT: (
        "took too long to answer, and was not waited for",
        "See whether it has triggers or views, which are none of ours: ce verify",
    ),
    sqlite3.SQLITE_IOERR: (
        "cannot be read or written: the disk reports an error",
        "Check the disk, and that the file was not replaced while in use.",
    ),
}


def is_busy(error: BaseException) -> bool:
    """Somebody else holds the lock just now."""
    return _code(error) in _BUSY


def is_repeated(error: BaseException) -> bool:
    """A row with this key is there already."""
    orig = error.orig if isinstance(error, DBAPIError) else error
    return getattr(orig, "sqlite_errorcode", None) in _REPEATED


def is_no_database(error: BaseException) -> bool:
    """The file is none of SQLite's."""
    return _code(error) == sqlite3.SQLITE_NOTADB


def may_be_of_before(error: BaseException) -> bool:
    """The fault may lie in what a connection remembers of the file, not in the file."""
    return _code(error) in _OF_BEFORE


def explain(error: BaseException, path: Path) -> BaseException:
    """The error that the caller gets; ours, and what is no database error, stays what it is."""
    code = _code(error)
    if isinstance(error, ContextEngineError) or code is None:
        return error
    if code == sqlite3.SQLITE_CANTOPEN:
        return cannot_open(path)
    if code in _SAYINGS:
        problem, cure = _SAYINGS[code]
        return StoreUnavailableError(f"the store's file {str(path)!r} {problem}. {cure}")
    orig = error.orig if isinstance(error, DBAPIError) else error
    name = getattr(orig, "sqlite_errorname", type(orig).__name__)
    if not hasattr(orig, "sqlite_errorcode"):  # the driver's own: what was stored is no text
        return damaged(path, orig)
    if isinstance(orig, sqlite3.OperationalError):
        return StoreUnavailableError(
            f"the store's file {str(path)!r} cannot be used ({name}); see SQLite's result codes"
        )
    return StoreError(f"the store refused a statement ({name}); this is a fault of ce-integrations")


def locked(path: Path, waited_s: float) -> StoreUnavailableError:
    """Say that the file stayed locked."""
    return StoreUnavailableError(
        f"the store's file {str(path)!r} is locked by another connection (waited {waited_s:g} s), of another "
        "program or of this one. End its long transaction, or give this application a file of its own."
    )


def damaged(path: Path, error: object) -> FileDamagedError:
    """Say that a record is none; other records of the file may well be."""
    return FileDamagedError(
        f"the store's file {str(path)!r} holds a damaged record ({type(error).__name__}). It was left "
        "as it is. Restore a backup, or delete the session that it belongs to: ce delete"
    )


def is_link(path: Path, link: Path) -> StoreUnavailableError:
    """Say that a link is not followed: whoever made it may have meant a file of somebody else."""
    cure = f"Name the file itself: {str(path.resolve())!r}."
    if link != path:
        cure = "Look what it leads to, and delete the link while no app uses the store."
    return StoreUnavailableError(
        f"the store's file {str(link)!r} is a symbolic link, which is not followed. {cure}"
    )


def is_no_file(path: Path) -> StoreUnavailableError:
    """Say that something else is in the place of a file that SQLite has beside its own."""
    return StoreUnavailableError(
        f"the store's file {str(path)!r} is a pipe, a folder or a device, and was not opened. Take it away: "
        "SQLite makes a file there when it needs one."
    )


def cannot_open(path: Path) -> StoreUnavailableError:
    """Say why a file cannot be opened."""
    folder = path.parent
    if _is_folder(path):
        problem, cure = "is a folder", "Name a file in it, such as ce.db."
    elif not _is_there(folder):
        problem, cure = "cannot be made: its folder does not exist", f"Create {str(folder)!r}."
    elif not _is_folder(folder):
        problem, cure = f"cannot be made: {str(folder)!r} is no folder", "Name another path."
    else:
        problem = "cannot be opened or made"
        cure = "Give this user read and write permission for the file and its folder."
    return StoreUnavailableError(f"the store's file {str(path)!r} {problem}. {cure}")


def _is_folder(path: Path) -> bool:
    with suppress(OSError):
        return path.is_dir()
    return False


def _is_there(path: Path) -> bool:
    with suppress(OSError):
        return path.exists()
    return True  # it cannot be seen, which says more than that it is missing


def _code(error: BaseException) -> int | None:
    """SQLite's primary result code."""
    orig = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(orig, sqlite3.Error):
        return None
    code: int = getattr(orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & _PRIMARY
