"""`ce ui`: a local page that shows what went to the model, what fell out, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from ce_engine.apps.cli.options import Account, Prices, StoreUrl, User
from ce_engine.apps.cli.reading import prices_of
from ce_engine.errors import MissingDependencyError


Host = Annotated[
    str, typer.Option(help="Where it is served; other machines see it only if you say so.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 is any free one.")]
Open = Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")]


def ui(
    *,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    open_it: Open = True,
    prices: Prices = None,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
) -> None:
    """Serve a page of what is recorded: sessions, turns, decisions and sources. It only reads.

    The link that is printed has a token: whoever has it sees what is stored. Ctrl-C ends it.
    """
    try:
        from ce_engine.apps.web.reading import Source  # noqa: PLC0415 - an extra's
        from ce_engine.apps.web.serving import serve  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError(
            f"`ce ui` needs {error.name}, which is not installed. Install it with "
            '`pip install "ce-integrations[ui]"`.'
        ) from error
    source = Source(store, account, user, prices=prices_of(prices))
    serve(source, host=host, port=port, open_it=open_it)
