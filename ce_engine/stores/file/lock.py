"""An advisory lock on a file, among processes and within one, that ends with its process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep


if sys.platform == "win32":
    import msvcrt

    def _try_lock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try_lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.01


@contextmanager
def held(
    path: Path,
    deadline: float,
    make_folder: Callable[[], None],
    note: Callable[[int | None], None],
) -> Iterator[None]:
    """Hold the lock of the file at `path`, which is made if it is not there.

    `note` is told the descriptor while it is open: a forked child that gets a copy must close it.

    Raises:
        TimeoutError: somebody else held it until the deadline.
        OSError: the file cannot be opened or made.
    """
    pause = _FIRST_PAUSE_S
    while True:
        try:
            fd = _open(path)
        except FileNotFoundError:
            make_folder()
            fd = _open(path)
        note(fd)
        try:
            if _locked(fd, path):
                yield
                return
        finally:
            note(None)
            os.close(fd)
        if monotonic() + pause > deadline:
            raise TimeoutError
        sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)


def _locked(fd: int, path: Path) -> bool:
    """Whether the file is now locked, and still the one at the path: it may be deleted meanwhile."""
    try:
        _try_lock(fd)
        there = path.stat()
    except (BlockingIOError, PermissionError, FileNotFoundError):
        return False
    return os.path.samestat(os.fstat(fd), there)
