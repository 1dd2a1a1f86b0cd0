"""`ce metrics`: what a store has recorded, for Prometheus."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from ce_engine.apps.cli.options import Prices, StoreUrl
from ce_engine.apps.cli.progress import spinner
from ce_engine.apps.cli.reading import prices_of, reading
from ce_engine.audit.store_metrics import StoreMetrics
from ce_engine.errors import ConfigError
from ce_engine.text.tokens.prices import PriceTable


SUFFIX = ".prom"
"""Which files node_exporter's textfile collector reads."""

Textfile = Annotated[
    Path | None,
    typer.Option(
        "--textfile",
        metavar="FILE",
        help="Write FILE.prom for node_exporter's textfile collector, whole or not at all.",
        show_default="stdout",
    ),
]


def metrics(*, textfile: Textfile = None, prices: Prices = None, store: StoreUrl = None) -> None:
    """Print what a store has recorded as metrics of Prometheus: calls, tokens, cost, what went wrong.

    All accounts and users together; no content, and nobody's id. With --textfile for a timer of your own:
    the file is replaced at once, and left as it is where the store cannot be read.
    """
    if textfile is not None:
        _check(textfile)
    text = asyncio.run(_text(store, prices_of(prices)))
    if textfile is None:
        typer.echo(text, nl=False)
    else:
        _replace(textfile, text)


async def _text(url: str | None, prices: PriceTable | None) -> str:
    async with reading(url) as store:
        with spinner("reading"):
            return await StoreMetrics(store, prices).text()


def _check(path: Path) -> None:
    if path.suffix != SUFFIX:
        raise ConfigError(
            f"{str(path)!r} does not end in {SUFFIX}: the textfile collector would pass it over"
        )
    if not path.parent.is_dir():
        raise ConfigError(f"the folder of {str(path)!r} is not there: make it, or name another one")


def _replace(path: Path, text: str) -> None:
    """Put the text in the file's place: who reads it sees the one before, or this one."""
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(draft).chmod(0o644)  # the collector is another user
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be written ({error.strerror or error})") from error
