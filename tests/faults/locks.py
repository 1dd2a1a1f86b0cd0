"""A fork while another thread holds a lock of ours, whichever it is: the child must not wait for that thread."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from tests.faults.worker_apps import Host

OURS = ("ce_engine", "ce_integrations")
LOCKS = (type(threading.Lock()), type(threading.RLock()))
CHILD_S = 20
"""A child that takes longer waits for a lock that nobody opens."""


def fork_with_locks_held(host: Host, folder: Path, workers: int, calls: int) -> None:
    """For each lock of ours: hold it in a thread, fork, and have the child make calls."""
    from tests.faults.worker_apps import Told, asks, in_child

    told = Told(folder)
    asks(host, told, "master", calls)
    host.engine.sync.flush()
    found = dict(locks(host))
    hung = []
    for number, (name, lock) in enumerate(found.items()):
        held, done = threading.Event(), threading.Event()
        holder = threading.Thread(target=hold, args=(lock, held, done))
        holder.start()
        held.wait()
        pid = os.fork()
        if pid == 0:
            signal.alarm(CHILD_S)
            in_child(host, partial(calls_of, host, folder, f"child-{number}", workers))
        if os.waitpid(pid, 0)[1]:
            hung.append(name)
        done.set()
        holder.join()
    if hung:
        raise RuntimeError(f"children waited for locks of the parent: {hung}")
    print(f"{len(found)} locks were held")


def calls_of(host: Host, folder: Path, session: str, calls: int) -> None:
    """Calls in a session, and one in none."""
    from tests.faults.worker_apps import Told, asks

    asks(host, Told(folder), session, calls)
    host.ask_in_none("nobody's: question?")


def hold(lock: Any, held: threading.Event, done: threading.Event) -> None:
    with lock:
        held.set()
        done.wait()


def locks(host: Host) -> Iterator[tuple[str, Any]]:
    """(name, lock) of all that our modules and the objects which they and the host hold."""
    seen: dict[int, object] = {}
    waiting: deque[tuple[str, object]] = deque([("host", host)])
    for name, module in list(sys.modules.items()):
        if name.startswith(OURS) and "testing" not in name:
            waiting.extend((f"{name}.{key}", value) for key, value in list(vars(module).items()))
    while waiting:
        name, value = waiting.popleft()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, LOCKS):
            yield f"{name} ({id(value)})", value
        elif isinstance(value, Mapping):
            waiting.extend((name, each) for each in list(value.values()))
        elif isinstance(value, list | tuple | set | frozenset | deque):
            waiting.extend((name, each) for each in list(value))
        elif type(value).__module__.startswith(OURS) or type(value) is type(host):
            own = type(value).__name__
            slots = (s for each in type(value).__mro__ for s in getattr(each, "__slots__", ()))
            for attribute in {*getattr(value, "__dict__", {}), *slots}:
                waiting.append((f"{own}.{attribute}", getattr(value, attribute, None)))
