"""Files and folders for this user alone, from their first byte, and never through a symbolic link.

What is opened is a regular file: who opens a pipe may wait for ever.

Where a system has no such modes (Windows), what is made has the rights of its folder.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from glob import escape
from pathlib import Path

from ce_engine.stores.fork import survive_fork


FILE_MODE, FOLDER_MODE = 0o600, 0o700
OTHERS = 0o077
"""The bits of a mode that give rights to others than the owner."""

_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
"""Of a regular file it says nothing; a pipe is opened at once, or not at all."""


class _Making:
    """The lock of those who make a file; a forked child has one that nobody holds."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        survive_fork(self)

    def before_fork(self) -> None:
        """Whoever holds it comes to rest by itself."""

    def after_fork(self, *, child: bool) -> None:
        if child:
            self.lock = threading.Lock()


_making = _Making()


def opener(path: str, flags: int) -> int:
    """For `open(..., opener=opener)`: an `OSError` where the file is a link, or no regular one; nobody waits."""
    return open_regular(path, flags | _NO_FOLLOW)


def open_regular(path: str, flags: int) -> int:
    """The same, wherever links lead.

    Raises:
        OSError: it cannot be opened, or is no regular file (`ENXIO`, as the system says of some pipes).
    """
    handle = os.open(path, flags | NO_WAIT, FILE_MODE)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.ENXIO, "it is no regular file", path)
    return handle


def make_file(path: Path) -> None:
    """Make an empty file, if there is none, for a library that opens it by itself.

    Raises:
        OSError: it cannot be made.
    """
    # Closing a file gives up this process's locks on it: nobody may have it open before it is closed.
    with _making.lock, suppress(FileExistsError):
        if not os.path.lexists(path):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))


def make_folders(root: Path, folder: Path) -> None:
    """Make a folder and those between it and `root`, which is there; those that are there stay as they are."""
    for part in reversed([folder, *folder.parents]):
        if part.is_relative_to(root) and part != root:
            part.mkdir(FOLDER_MODE, exist_ok=True)


def refuse_links(*paths: Path) -> None:
    """See that none of them is a symbolic link.

    Raises:
        OSError: one is (`ELOOP`), or it may not be looked at.
    """
    for path in paths:
        if is_link(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def is_link(path: Path) -> bool:
    """Whether it is there and leads elsewhere."""
    try:
        return stat.S_ISLNK(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def is_irregular(path: Path) -> bool:
    """Whether something else than a file is there: a pipe, a folder, a device, a link."""
    try:
        return not stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def is_open_to_others(path: Path) -> bool:
    """Whether others than its owner have any right to it; false where there are no modes."""
    return os.name == "posix" and bool(stat.S_IMODE(path.lstat().st_mode) & OTHERS)


_DRAFT = ".draft"


def draft_path(path: Path, owner: str) -> Path:
    """Where a process, by its name (`runtime.processes`), puts together what comes to a path at the end."""
    return path.with_name(f".{path.name}.{owner.replace(':', '@')}{_DRAFT}")


def drafts_of(path: Path) -> list[tuple[Path, str]]:
    """What was begun for a path and is not there yet, files and folders, each with the name of its process."""
    drafts = sorted(path.parent.glob(f".{escape(path.name)}.*{_DRAFT}*"))
    names = (draft.name.removeprefix(f".{path.name}.").partition(_DRAFT)[0] for draft in drafts)
    return [(draft, name.replace("@", ":")) for draft, name in zip(drafts, names, strict=True)]


def remove_drafts(path: Path, is_gone: Callable[[str], bool]) -> None:
    """Take away what processes began for a path that surely run no more.

    Raises:
        OSError: it cannot be taken away.
    """
    for draft, process in drafts_of(path):
        if not is_gone(process):
            continue
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft)
        else:
            draft.unlink(missing_ok=True)
