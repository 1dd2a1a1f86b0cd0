"""Serves the pages on this machine until Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import socket
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from types import FrameType
from urllib.parse import urlencode

import typer
import uvicorn
from starlette.applications import Starlette

from ce_engine.apps.cli.reading import find_session
from ce_engine.apps.web.links import session_url
from ce_engine.apps.web.reading import Source
from ce_engine.apps.web.security import (
    ANYWHERE,
    MOVED,
    TOKEN,
    Access,
    new_token,
    read_or_make_token,
)
from ce_engine.apps.web.server import create_app
from ce_engine.errors import ConfigError


GRACE_S = 2
"""How long an answer that is under way may take when the page ends."""


class _Server(uvicorn.Server):
    """Ends the streams of live pages, too, which never end by themselves."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._state = app.state

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note that Ctrl-C was pressed."""
        if (index := getattr(self._state, "index", None)) is not None:
            index.end()
        super().handle_exit(sig, frame)


def serve(
    source: Source,
    *,
    host: str,
    port: int,
    open_it: bool,
    session_id: str | None = None,
    token_file: Path | None = None,
) -> None:
    """Print the address, open it in the browser if wanted, and serve until Ctrl-C.

    Raises:
        ConfigError: the address cannot be used, or the file of the token.
        SessionNotFoundError: there is no session to begin with.
        StoreUnavailableError: there is no store.
    """
    token = read_or_make_token(token_file) if token_file is not None else new_token()
    access = Access(token, host)
    path = asyncio.run(_begin(source, session_id))
    with _listener(host, port) as listener:
        host_name = "127.0.0.1" if host in ANYWHERE else f"[{host}]" if ":" in host else host
        query = urlencode({TOKEN: access.token})
        address = f"http://{host_name}:{listener.getsockname()[1]}{path}{'&' if '?' in path else '?'}{query}"
        typer.echo(f"ce ui is at {address}\nIt only reads. Ctrl-C ends it.")
        with suppress(KeyboardInterrupt), _opened(address if open_it else None):
            asyncio.run(_Server(create_app(source, access)).serve(sockets=[listener]))


async def _begin(source: Source, session_id: str | None) -> str:
    """The path that is shown first; what is wrong with the store is told before anything is served."""
    async with source.open() as reader:
        if session_id is None:
            return "/"
        info = await find_session(
            reader.store, session_id, account=source.account, user=source.user
        )
        return session_url(info.user_id, info.session_id)


@contextmanager
def _opened(address: str | None) -> Iterator[None]:
    """Open the address in a browser by way of a file of this user's: all users see what a command is given."""
    if address is None:
        yield
        return
    with TemporaryDirectory(prefix="ce-ui-") as folder:  # nobody else's to look into
        page = Path(folder) / "open.html"
        page.write_text(MOVED.format(address=escape(address)), encoding="utf-8")
        Thread(target=webbrowser.open, args=[page.as_uri()], daemon=True).start()
        yield


def _listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()  # who comes before the first answer waits for it
    except OSError as error:
        cure = (
            "another `--port`; 0 is any free one" if error.errno == errno.EADDRINUSE else "--host"
        )
        raise ConfigError(
            f"{host}:{port} cannot be served ({error.strerror or error}). Try {cure}."
        ) from error
    return listener
