"""Puts what a command was asked for into a new file, for its owner alone to read, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from ce_engine.errors import ConfigError


def refuse_to_overwrite(path: Path) -> None:
    """See that nothing is at a path, before it takes long to make what goes there; a link is something.

    Raises:
        ConfigError: something is.
    """
    if os.path.lexists(path):
        raise _is_there(path)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there; others on the machine are not to read it, from its first byte on.

    Raises:
        ConfigError: it is there, be it as a link, or cannot be written.
    """
    try:
        file = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600
        )
    except FileExistsError:
        raise _is_there(path) from None
    except OSError as error:
        raise _cannot(path, error) from error
    try:
        with os.fdopen(file, "wb") as out:
            out.write(data)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _cannot(path, error) from error
        raise


def _is_there(path: Path) -> ConfigError:
    return ConfigError(
        f"{str(path)!r} is there already, and is left as it is; name a new file, or take it away"
    )


def _cannot(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{str(path)!r} cannot be written ({error.strerror or error})")
