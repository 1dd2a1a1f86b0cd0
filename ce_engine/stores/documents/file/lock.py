"""An advisory lock on a file, among processes and within one, that ends with its process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from ce_engine.stores import private_files


if sys.platform == "win32":
    import msvcrt

    def _try_lock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

    def _unlock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.01


@contextmanager
def hold(path: Path, deadline: float, make_folder: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of the file at `path`, which is made if it is not there.

    Raises:
        TimeoutError: somebody else held it until the deadline.
        OSError: the file cannot be opened or made.
    """
    pause = _FIRST_PAUSE_S
    while True:
        try:
            file = open(path, "ab", opener=private_files.opener)  # noqa: SIM115 - closed below
        except FileNotFoundError:
            make_folder()
            file = open(path, "ab", opener=private_files.opener)  # noqa: SIM115 - closed below
        with file:
            if _locked(file.fileno(), path):
                try:
                    yield
                finally:  # closing is not enough where a forked child has a copy
                    _unlock(file.fileno())
                return
        if monotonic() + pause > deadline:
            raise TimeoutError
        sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _locked(fd: int, path: Path) -> bool:
    """Whether the file is now locked, and still the one at the path: it may be deleted meanwhile."""
    try:
        _try_lock(fd)
        return os.path.samestat(os.fstat(fd), path.lstat())
    except (BlockingIOError, PermissionError, FileNotFoundError):
        return False
