"""`ce ui`: a local page that shows what went to the model, what fell out, and why."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ce_engine.apps.cli.options import Account, Prices, StoreUrl, User
from ce_engine.apps.cli.progress import bar
from ce_engine.apps.cli.reading import find_scope, prices_of
from ce_engine.errors import ConfigError, MissingDependencyError


if TYPE_CHECKING:
    from ce_engine.apps.web.reading import Source


Host = Annotated[
    str, typer.Option(help="Where it is served; other machines see it only if you say so.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 is any free one.")]
Open = Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")]

TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        dir_okay=False,
        help="Keep the token in this file, for a program that reads /metrics; it is made if it is not there.",
        show_default="a new token each time",
    ),
]

Chosen = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION",
        help="The session to begin with, or to export.",
        show_default="the list of all",
    ),
]
Export = Annotated[
    Path | None,
    typer.Option(
        "--export",
        metavar="DIR",
        file_okay=False,
        help="Serve nothing; write SESSION into this folder as a page of its own, to send to a colleague.",
    ),
]
LanguageCode = Annotated[
    str, typer.Option("--language", metavar="CODE", help="Of the exported page: en or zh.")
]


def ui(  # noqa: PLR0913 - one parameter an option
    session: Chosen = None,
    *,
    export: Export = None,
    language: LanguageCode = "en",
    host: Host = "127.0.0.1",
    port: Port = 8765,
    open_it: Open = True,
    token_file: TokenFile = None,
    prices: Prices = None,
    store: StoreUrl = None,
    user: User = None,
    account: Account = "",
) -> None:
    """Serve a page of what is recorded: sessions, turns, decisions and sources. It only reads.

    It begins with the list of sessions, or with SESSION. The link that is printed has a token: whoever has it sees what is stored. Ctrl-C ends it.

    With --export, one session becomes one HTML file that needs nothing else.
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
    if export is None:
        serve(
            source, host=host, port=port, open_it=open_it, session_id=session, token_file=token_file
        )
        return
    path = asyncio.run(_export(source, session, export, language))
    typer.echo(
        f"{path}\nIt has what is stored of this session, redacted: send it to nobody who may not read that."
    )


async def _export(source: Source, session_id: str | None, folder: Path, language: str) -> Path:
    """Write the page, with a bar of the turns that are made again."""
    from ce_engine.apps.present.language import languages  # noqa: PLC0415 - reads files
    from ce_engine.apps.web.exporting import FULL, export_session  # noqa: PLC0415 - an extra's

    if session_id is None:
        raise ConfigError(
            "--export needs a session: ce ui SESSION --export DIR; `ce sessions` lists them"
        )
    if language not in languages():
        raise ConfigError(f"there is no language {language!r}; expected {', '.join(languages())}")
    async with source.open() as reader:
        scope = await find_scope(reader.store, session_id, account=source.account, user=source.user)
        turns = len(await reader.store.list_turns(scope))
        with bar("making turns again", min(turns, FULL)) as step:
            return await export_session(
                reader, scope, folder, languages()[language], lambda _, __: step()
            )
