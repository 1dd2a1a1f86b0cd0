"""`ce migrate`: a session document of an older schema version as one of this version (A-06)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ce_engine.apps.cli.options import AsJson
from ce_engine.apps.present.new_files import refuse_to_overwrite, write_new
from ce_engine.apps.present.output import print_json
from ce_engine.errors import SchemaValidationError
from ce_engine.schema.migration import Migrator


File = Annotated[
    str, typer.Argument(metavar="FILE", help="A session document, JSON; `-` is the standard input.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Write the document into this new file; else it is printed."),
]
Version = Annotated[
    str | None, typer.Option("--from", help="Its schema version, where it does not say so itself.")
]


def migrate(
    file: File, *, out: Out = None, from_version: Version = None, as_json: AsJson = False
) -> None:
    """Bring a session document (JSON) to the current schema version, and tell what was done to it.

    Stores need none of this: a database migrates its tables when it is opened.
    """
    if out is not None:
        refuse_to_overwrite(out)
    result = Migrator().migrate(_read(file), from_version)
    document = result.doc.model_dump(mode="json", exclude_none=True)
    if out is not None:
        text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
        write_new(out, text.encode())
    if as_json:
        summary = {
            "from_version": result.from_version,
            "to_version": result.to_version,
            "changes": result.changes,
        }
        print_json(summary if out is not None else {**summary, "document": document})
        return
    for change in result.changes or [f"nothing to do: it is of version {result.to_version}"]:
        typer.echo(change, err=out is None)
    if out is None:
        print_json(document)


def _read(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        document = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaValidationError(
            f"{file!r} cannot be read as JSON ({error}); expected a session document, such as "
            "`ce show SESSION --json` prints"
        ) from error
    if not isinstance(document, dict):
        raise SchemaValidationError(
            f"{file!r} holds a {type(document).__name__}, expected a JSON object: a session document"
        )
    return document
