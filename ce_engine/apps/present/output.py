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
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ce_engine.errors import ContextEngineError


P = ParamSpec("P")
T = TypeVar("T")

PIPED_WIDTH = 120
"""Cells in a line where there is no terminal to ask."""

MAX_CELLS = 200
"""Cells of a column, however long its values are."""

_CRLF = re.compile(r"\r\n?")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_UUID_TAIL = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


def console(*, err: bool = False) -> Console:
    """A console that takes text as it is: no markup, no emoji codes, no guessed highlights."""
    screen = Console(stderr=err, markup=False, emoji=False, highlight=False)
    if not screen.is_terminal and "COLUMNS" not in os.environ:
        screen.width = PIPED_WIDTH
    return screen


def has_width(screen: Console) -> bool:
    """Whether lines must end somewhere: not where another program or a file takes them."""
    return screen.is_terminal or "COLUMNS" in os.environ


def printable(text: str) -> str:
    """The text without what would steer a terminal: control characters are shown, not sent."""
    return CONTROL.sub(
        lambda match: match.group().encode("unicode_escape").decode("ascii"),
        _CRLF.sub("\n", text),
    )


def clipped(text: str, cells: int) -> str:
    """The text on one line, at most so many cells wide; a CJK character takes two."""
    line = Text(printable(" ".join(text[: 8 * cells].split())))
    line.truncate(cells, overflow="ellipsis")
    return line.plain


def print_under(
    screen: Console, indent: int, text: str, *, before: str | Text = "", style: str = ""
) -> None:
    """Print a text that is indented, every line of it; `before` stands on the first line instead."""
    lead = Text.assemble(before)
    lead.append(" " * (indent - lead.cell_len))
    for line in Text(printable(text), style=style).wrap(screen, max(1, screen.width - indent)):
        line.rstrip()
        screen.print(lead.append(line), soft_wrap=True)
        lead = Text(" " * indent)


def print_columns(
    screen: Console,
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numbers: AbstractSet[str] = frozenset(),
    narrow: str = "",
    spare: Sequence[str] = (),
) -> None:
    """Print rows under their heads, one line each.

    Args:
        screen: where to.
        heads: of the columns.
        rows: a value for each column.
        numbers: columns that are set to the right.
        narrow: the column that is shortened where there is no room for all.
        spare: those that are left out where there is no room for all, in this order; a last line names them.
    """
    missing: list[str] = []
    if has_width(screen):
        heads, rows, missing = _within(screen.width, heads, rows, spare)
    lines = lined_up(heads, rows, numbers=numbers, narrow=narrow, cells=screen.width)
    for style, line in zip(["bold", *[""] * len(rows)], lines, strict=True):
        screen.print(Text(line, style=style), soft_wrap=True)
    if missing:
        print_under(screen, 0, f"a wider terminal has {', '.join(missing)}, too", style="dim")


def _within(
    cells: int, heads: Sequence[str], rows: Sequence[Sequence[object]], spare: Sequence[str]
) -> tuple[Sequence[str], Sequence[Sequence[object]], list[str]]:
    """As many columns as there is room for, and those that had to go."""
    missing: list[str] = []
    for name in spare:
        if max(map(cell_len, lined_up(heads, rows))) <= cells:
            break
        place = [*heads].index(name)
        heads = [*heads[:place], *heads[place + 1 :]]
        rows = [[*row[:place], *row[place + 1 :]] for row in rows]
        missing.append(name)
    return heads, rows, missing


def lined_up(
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numbers: AbstractSet[str] = frozenset(),
    narrow: str = "",
    cells: int = PIPED_WIDTH,
    gap: str = "  ",
    least: Sequence[int] = (),
) -> list[str]:
    """The heads and the rows as lines whose columns stand under each other.

    Args:
        heads: of the columns; the first one's values are names, never shortened.
        rows: a value for each column.
        numbers: columns that are set to the right.
        narrow: the column that is shortened where a line would be wider than `cells`.
        cells: how wide a line may be.
        gap: what stands between columns.
        least: how wide each column is at least.
    """
    table = [list(heads)]
    table += [
        [printable(str(row[0])), *(clipped(str(value), MAX_CELLS) for value in row[1:])]
        for row in rows
    ]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    widths = [max(pair) for pair in zip(widths, least or widths, strict=True)]
    if narrow:
        place = list(heads).index(narrow)
        room = cells - sum(widths) + widths[place] - len(gap) * (len(widths) - 1)
        widths[place] = max(len(narrow), min(widths[place], room))
        table = [
            [*row[:place], clipped(row[place], widths[place]), *row[place + 1 :]] for row in table
        ]
    right = [head in numbers for head in heads]
    return [gap.join(map(_aligned, row, widths, right)).rstrip() for row in table]


def _aligned(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def short_id(identifier: str) -> str:
    """An id as it is shown to people: of a UUID its first eight digits."""
    return _UUID_TAIL.sub(r"\1", identifier)


def moment(iso: str | None) -> str:
    """A stored time (UTC) to the second, without its `T` and `Z`."""
    return (iso or "")[:19].replace("T", " ")


def number(value: int | None) -> str:
    """A number with its thousands apart; `-` of nothing."""
    return "-" if value is None else f"{value:,}"


def percent(part: float, whole: float, places: int = 0) -> str:
    """How much `part` is of `whole`; `-` of nothing."""
    return f"{100 * part / whole:z.{places}f}%" if whole else "-"


def print_json(value: Any) -> None:
    """Print plain data as JSON; in escapes what steers a terminal, and where the stream's encoding cannot hold the text."""
    plain = json.dumps(value, ensure_ascii=False, indent=2)
    text = CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", plain)
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


def change(now: float, before: float, places: int = 0) -> str:
    """How much more or less `now` is than `before`, with its sign; `0%` of what is the same."""
    if not before:
        return "0%" if not now else "-"
    more = 100 * (now - before) / before
    if now == before:
        return "0%"
    return f"{more:+.{places}f}%" if abs(more) >= 0.5 else f"{more:+.1f}%"
