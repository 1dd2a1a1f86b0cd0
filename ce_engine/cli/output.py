"""How a command prints: tables and lines for people, JSON for programs, one line for an error."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ParamSpec, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ce_engine.errors import ContextEngineError


P = ParamSpec("P")
T = TypeVar("T")

PIPED_WIDTH = 120
"""Cells in a line where there is no terminal to ask."""

_CRLF = re.compile(r"\r\n?")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_UUID_TAIL = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


def console(*, err: bool = False) -> Console:
    """A console that takes text as it is: no markup, no emoji codes, no guessed highlights."""
    found = Console(stderr=err, markup=False, emoji=False, highlight=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found.width = PIPED_WIDTH
    return found


def printable(text: str) -> str:
    """The text without what would steer a terminal: control characters are shown, not sent."""
    return _CONTROL.sub(
        lambda found: found.group().encode("unicode_escape").decode("ascii"),
        _CRLF.sub("\n", text),
    )


def clipped(text: str, cells: int) -> Text:
    """The text on one line, at most so many cells wide; a CJK character takes two."""
    line = Text(printable(" ".join(text[: 8 * cells].split())))
    line.truncate(cells, overflow="ellipsis")
    return line


def cell(value: object) -> Text:
    """A table's cell: one line that ends in an ellipsis where the column is too narrow."""
    return Text(printable(" ".join(str(value).split())), no_wrap=True, overflow="ellipsis")


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numbers: AbstractSet[str] = frozenset(),
    narrow: str = "",
) -> Table:
    """A table for people.

    Args:
        columns: their heads; the first one's cells are names, shown whole.
        rows: a value for each column.
        numbers: columns that are set to the right.
        narrow: the column that takes the room that is left.
    """
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    cells = [[cell(value) for value in row] for row in rows]
    for place, column in enumerate(columns):
        made.add_column(
            column,
            justify="right" if column in numbers else "left",
            no_wrap=True,
            min_width=max((row[0].cell_len for row in cells), default=0) if place == 0 else None,
            ratio=1 if column == narrow else None,
        )
    for row in cells:
        made.add_row(*row)
    return made


def short_id(identifier: str) -> str:
    """An id as it is shown to people: of a UUID its first eight digits."""
    return _UUID_TAIL.sub(r"\1", identifier)


def moment(iso: str | None) -> str:
    """A stored time (UTC) to the second, without its `T` and `Z`."""
    return (iso or "")[:19].replace("T", " ")


def number(value: int | None) -> str:
    """A number with its thousands apart; `-` of nothing."""
    return "-" if value is None else f"{value:,}"


def percent(part: float, whole: float) -> str:
    """How much `part` is of `whole`; `-` of nothing."""
    return f"{100 * part / whole:.0f}%" if whole else "-"


def print_json(value: Any) -> None:
    """Print plain data as JSON; in escapes where the stream's encoding cannot hold the text."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2)
    typer.echo(text)


def reported(command: Callable[P, T]) -> Callable[P, T]:
    """Have an error of ours end the command with one line on stderr and exit code 1.

    With `--json` the line is an object `{"error": {"code", "message"}}`; stdout stays empty.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except ContextEngineError as error:
            message = printable(" ".join(str(error).split()))
            if kwargs.get("as_json"):
                value = {"error": {"code": error.code, "message": message}}
                typer.echo(json.dumps(value), err=True)
            else:
                typer.echo(f"error [{error.code}]: {message}", err=True)
            raise typer.Exit(1) from error

    return run
