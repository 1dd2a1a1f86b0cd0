"""A file store that is put together beside its place, and comes there whole or not at all (19 B.8)."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ce_engine.errors import ConfigError
from ce_engine.runtime.processes import is_gone, owner
from ce_engine.stores import private_files


STORE = "store"
"""The folder in a draft that comes to the store's place; what else is there goes."""


@contextmanager
def draft_of(root: Path) -> Iterator[Path]:
    """A folder beside a store's; its `store` is moved there at the end, and nothing stays if that fails.

    Drafts of processes that were killed go first: each is a copy of all that a store has.

    Raises:
        ConfigError: there is no room for a draft, or something came to the store's place meanwhile.
    """
    place = root.resolve()  # the store's whole folder may be a link
    draft = private_files.draft_path(place, owner())
    with _naming(place):
        if os.path.ismount(place):  # said before the work, and not after it
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(place))
        private_files.remove_drafts(place, is_gone)
        draft.mkdir(private_files.FOLDER_MODE)
    try:
        yield draft
        _sync(draft / STORE)
        with _naming(place):
            with suppress(FileNotFoundError):
                place.rmdir()  # an empty one that was there
            (draft / STORE).rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _naming(place: Path) -> Iterator[None]:
    """Say of what the system refuses how to go on."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"nothing can be put to {str(place)!r}: {error.strerror or error} ({error.filename}). The store "
            "is put together beside it first: name a folder that is not there yet, in one where this user may "
            "write (in a volume, and not the volume itself)"
        ) from error


def _sync(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open(
                "rb+"
            ) as file:  # what is read only cannot be brought to the disk everywhere
                os.fsync(file.fileno())
