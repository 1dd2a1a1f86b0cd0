"""A store's SQLite file as an archive: whole or not there, and never in the place of another (19 B.8)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ce_engine.errors import ConfigError, StoreUnavailableError
from ce_engine.runtime.processes import is_gone, owner
from ce_engine.stores import private_files
from ce_engine.stores.tables import faults
from ce_engine.stores.tables.sqlite import BESIDE


def refuse_to_overwrite(path: Path) -> None:
    """See that nothing is at a path.

    Raises:
        ConfigError: something is, or there is no folder for it.
    """
    if os.path.lexists(path):
        raise ConfigError(
            f"{str(path)!r} is there already, and is left as it is; name another place"
        )
    if not path.parent.is_dir():
        raise ConfigError(f"there is no folder {str(path.parent)!r}; make it first")


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """A path beside this one, whose file is moved here at the end, whole; nothing stays if that fails.

    Drafts of processes that were killed go first: each is a copy of all that a store has.

    Raises:
        ConfigError: something came to this path meanwhile.
    """
    private_files.remove_drafts(path, is_gone)
    draft = private_files.draft_path(path, owner())
    try:
        yield draft
        _sync(draft)
        os.link(draft, path)
    except FileExistsError:
        refuse_to_overwrite(path)
        raise
    finally:
        for end in ("", *BESIDE, ".key"):
            with suppress(FileNotFoundError):
                draft.with_name(draft.name + end).unlink()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def snapshot(source: Path, target: Path) -> None:
    """One state of a database file, while others read and write it, as a file of its own.

    Raises:
        StoreUnavailableError: it cannot be read or written.
    """
    try:
        private_files.make_file(target)
        with (
            closing(
                sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)
            ) as connection,
            closing(sqlite3.connect(target)) as other,
        ):
            connection.backup(other)  # in one step: begun again at every write, it might never end
            if (verdict := other.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                raise StoreUnavailableError(
                    f"{str(source)!r} is damaged: {verdict}. Restore an older backup."
                )
    except sqlite3.Error as error:
        raise faults.explain(error, source) from error
