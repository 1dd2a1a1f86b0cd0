"""The options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ce_engine.stores.urls import DEFAULT, ORIGINALS_VARIABLE, VARIABLE


StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        envvar=VARIABLE,
        help="Where the sessions are kept.",
        show_default=DEFAULT,
    ),
]
OriginalsUrl = Annotated[
    str | None,
    typer.Option(
        "--originals",
        metavar="URL",
        envvar=ORIGINALS_VARIABLE,
        help="Where originals of redacted content are kept, if anywhere.",
        show_default="nowhere",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="ID",
        help="Sessions of this user only; '' is the user without a name.",
        show_default="all users",
    ),
]
Account = Annotated[
    str,
    typer.Option(
        "--account", metavar="ID", help="Sessions of this account.", show_default="the unnamed one"
    ),
]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="As `ce sessions` names it.")]
TurnChoice = Annotated[
    str | None,
    typer.Option("--turn", metavar="N|ID", help="One turn, by its number or the start of its id."),
]
Prices = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What models cost, TOML or JSON: see docs/compare.md.",
        show_default="CE_PRICES, else list prices",
    ),
]
