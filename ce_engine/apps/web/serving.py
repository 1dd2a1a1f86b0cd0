"""Serves the pages on this machine until Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import socket
import webbrowser
from contextlib import suppress
from types import FrameType

import typer
import uvicorn
from starlette.applications import Starlette

from ce_engine.apps.web.reading import Source
from ce_engine.apps.web.security import ANYWHERE, TOKEN, Access
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


def serve(source: Source, *, host: str, port: int, open_it: bool) -> None:
    """Print the address, open it in the browser if wanted, and serve until Ctrl-C.

    Raises:
        ConfigError: the address cannot be used.
        StoreUnavailableError: there is no store.
    """
    access = Access(host=host)
    listener = _listener(host, port)
    shown = f"[{host}]" if ":" in host else host
    shown = "127.0.0.1" if host in ANYWHERE else shown
    address = f"http://{shown}:{listener.getsockname()[1]}/?{TOKEN}={access.token}"
    server = _Server(create_app(source, access))
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(server, source, listener, address, open_it=open_it))


async def _run(
    server: uvicorn.Server, source: Source, listener: socket.socket, address: str, *, open_it: bool
) -> None:
    async with source.open():  # what is wrong with the store is told before anything is served
        pass
    typer.echo(f"ce ui is at {address}\nIt only reads. Ctrl-C ends it.")
    if open_it:
        await asyncio.to_thread(webbrowser.open, address)
    await server.serve(sockets=[listener])


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
