"""What went wrong with a store's files, in words that name the place and the cure."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ce_engine.errors import FileDamagedError, MigrationError, StoreUnavailableError


_FULL = (
    "cannot grow: the disk is full",
    "Free some space; what did not fit was not written, the rest is whole.",
)
_DENIED = (
    "may not be read or written by this user{place}",
    "Give this user read and write permission for the folder and all in it.",
)
_LINK = (
    "has a symbolic link in it{place}, which is not followed",
    "Put the files themselves there; only the store's whole folder may be a link.",
)
_IRREGULAR = (
    "has a pipe, a folder or a device in the place of a file{place}",
    "Take it away, and restore the file from a backup.",
)
_MISPLACED = (
    "has a file in the place of a folder{place}",
    "Take it away, and restore the folder from a backup.",
)
_SAYINGS = {
    **dict.fromkeys((errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)), _FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _DENIED),
    errno.ELOOP: _LINK,
    **dict.fromkeys((errno.ENXIO, errno.EISDIR), _IRREGULAR),
}

OF_ONE = (
    *(errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO, errno.EISDIR, errno.ENOTDIR),
    errno.EAGAIN,  # somebody has a lease on it
)
"""What the system says of one session's or one user's files, and not of its disk."""


def explain(error: OSError | UnicodeEncodeError, root: Path) -> StoreUnavailableError:
    """The error that the caller gets for one of the system's."""
    problem, cure = _saying(error, root)
    kind = FileDamagedError if is_of_one(error, root) else StoreUnavailableError
    return kind(f"the store's folder {str(root)!r} {problem}. {cure}")


def is_of_one(error: OSError | UnicodeEncodeError, root: Path) -> bool:
    """Whether it is the fault of one session's or one user's files, and the store is there for all others."""
    if isinstance(error, UnicodeEncodeError) or error.errno not in OF_ONE or not error.filename:
        return False
    if root not in Path(error.filename).parents or not root.is_dir():
        return False
    if error.errno not in (errno.EACCES, errno.EPERM):
        return True
    as_who_writes = (
        os.access in os.supports_effective_ids
    )  # else it may be that the whole store is denied
    return os.access(root, os.R_OK | os.W_OK | os.X_OK, effective_ids=as_who_writes)


def _saying(error: OSError | UnicodeEncodeError, root: Path) -> tuple[str, str]:
    if isinstance(error, UnicodeEncodeError):
        return (
            f"cannot hold a name in this process's encoding of file names ({error.encoding})",
            "Set PYTHONUTF8=1.",
        )
    place = f" ({error.filename})" if error.filename else ""
    if error.errno in _SAYINGS:
        problem, cure = _SAYINGS[error.errno]
        return problem.format(place=place), cure
    if not root.parent.exists():
        return (
            "cannot be made: the folder it would be in does not exist",
            f"Create {str(root.parent)!r}.",
        )
    if not root.parent.is_dir() or (root.exists() and not root.is_dir()):
        return f"is no folder{place}", "Name a folder; it is made if its parent is there."
    if error.errno == errno.ENOTDIR:
        return _MISPLACED[0].format(place=place), _MISPLACED[1]
    return (
        f"cannot be read or written: {error.strerror or error}{place}",
        "Check the disk, and that nobody moves or deletes files there while they are in use.",
    )


def locked(folder: Path, root: Path, waited_s: float) -> StoreUnavailableError:
    """Say that a session stayed locked."""
    return StoreUnavailableError(
        f"the store's folder {str(root)!r} has a session that is locked by another program, or another "
        f"store of this one: {folder.relative_to(root)} (waited {waited_s:g} s). End what holds its lock file."
    )


def damaged(path: Path, why: object) -> FileDamagedError:
    """Say that a file is not as it was written; `why` holds no content."""
    return FileDamagedError(
        f"the session's file {str(path)!r} is damaged ({why}). It was left as it is: restore its "
        "folder from a backup, or move that away to begin the session anew."
    )


def too_large(path: Path, most: int) -> FileDamagedError:
    """Say that a session has outgrown its file."""
    return FileDamagedError(
        f"the session's file {str(path)!r} would have more than {most} bytes: what is new was not written. Begin "
        "another session, or keep this one in an SQL store: ce copy"
    )


def foreign(root: Path, names: list[str]) -> StoreUnavailableError:
    """Say that the folder is somebody else's."""
    return StoreUnavailableError(
        f"the store's folder {str(root)!r} holds other files ({', '.join(sorted(names)[:3])}). It was "
        "left as it is: name a folder of its own."
    )


def newer(path: Path, format_: object, known_format: int) -> MigrationError:
    """Say that a later release wrote a file."""
    return MigrationError(
        f"the session's file {str(path)!r} has format {format_!r}; this release knows {known_format}. It was "
        "left as it is: use the release of ce-integrations that wrote it, or a newer one."
    )
