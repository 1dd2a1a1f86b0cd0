"""`ce schema`: JSON Schema of what the other commands print as JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from ce_engine.apps.cli.options import AsJson
from ce_engine.apps.present.output import print_json
from ce_engine.schema.export import EXPORTED, json_schema


Name = Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(EXPORTED)}.")]


def schema(name: Name = "document", *, as_json: AsJson = False) -> None:  # noqa: ARG001 - always JSON
    """Print the JSON Schema (draft 2020-12) of the document, a report or a trace.

    The document is what `ce show --json` prints, with or without --json.
    """
    print_json(json_schema(name))
