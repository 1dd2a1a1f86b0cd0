"""Whether there can be a store at a path at all, seen without touching it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ce_engine.errors import StoreUrlError


_SEE = " See: ce doctor"


def check_file(path: Path) -> None:
    """See that a file can be at a path, or be made there; what is merely away now is no fault.

    Raises:
        StoreUrlError: there can be none, now or later.
    """
    if _kind(path) == stat.S_IFDIR:
        raise StoreUrlError(
            f"the store's file {str(path)!r} is a folder. Name a file in it, such as ce.db.{_SEE}"
        )
    if path.is_symlink():
        raise StoreUrlError(
            f"the store's file {str(path)!r} is a symbolic link, which is not followed. Name the file "
            f"that it leads to; links to folders are followed.{_SEE}"
        )
    _check_made(path)


def check_folder(path: Path) -> None:
    """See that a folder can be at a path, or be made there; what is merely away now is no fault.

    Raises:
        StoreUrlError: there can be none, now or later.
    """
    if _kind(path) not in (None, stat.S_IFDIR):
        raise StoreUrlError(
            f"the store's folder {str(path)!r} is a file. Name a folder, or give its URL: "
            f"sqlite:///{path}.{_SEE}"
        )
    _check_made(path)


def _check_made(path: Path) -> None:
    """See that what is not there can be made, in the folder that it is to be in."""
    folder = path.parent
    if _kind(path) is not None:
        return
    kind = _kind(folder)
    if kind is None:
        problem, cure = (
            f"its folder {str(folder)!r} does not exist",
            "Create it, or name another path",
        )
    elif kind != stat.S_IFDIR:
        problem, cure = f"{str(folder)!r} is no folder", "Name another path"
    elif not os.access(folder, os.W_OK | os.X_OK):
        problem = f"this user may not write to {str(folder)!r}"
        cure = "Give it the right to, or name another path"
    else:
        return
    raise StoreUrlError(f"the store {str(path)!r} cannot be made: {problem}. {cure}.{_SEE}")


def _kind(path: Path) -> int | None:
    """The kind of what is at a path; `None` for nothing; what cannot be seen now may be anything."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return 0
