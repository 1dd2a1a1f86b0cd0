"""Which process holds a turn open, and whether it still lives."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path


def owner() -> str:
    """This process as `host:pid:started`."""
    return _owner(os.getpid())


@lru_cache(maxsize=4)
def _owner(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}:{_started(pid)}"


def is_gone(name: str) -> bool:
    """Whether the process `host:pid:started` surely runs no more; false for another host's."""
    rest, _, started = name.rpartition(":")
    host, _, number = rest.rpartition(":")
    if host != socket.gethostname() or not number.isdigit():
        return False
    pid = int(number)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return _started(pid) != started


def _started(pid: int) -> str:
    """When a process started, in kernel ticks; "" where the system does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
