"""Writes the tables of `docs/frameworks.md` from what the scenario shows: `python tests/parity/page.py`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


if __name__ == "__main__":  # run as a script, which sees its own folder only
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.parity.abilities import Cells, abilities, missing
from tests.parity.scenario import FRAMEWORKS, Outcome, installed, play


PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
BEGIN, END = "<!-- table: {} -->", "<!-- end of table -->"
Table = dict[str, Cells]
"""Cells by line and framework."""


def tables(outcomes: Mapping[str, Outcome]) -> dict[str, Table]:
    """The tables of the page by name, with a column for each of these frameworks."""
    columns = {name: abilities(outcome) for name, outcome in outcomes.items()}
    lines = next(iter(columns.values()))
    able = {line: {name: columns[name][line] for name in columns} for line in lines}
    return {"abilities": able, "rows": missing(outcomes)}


def read(text: str, name: str) -> Table:
    """A table as the page has it."""
    _, _, after = text.partition(BEGIN.format(name))
    body, end, _ = after.partition(END)
    if not end:
        raise ValueError(f"{PAGE.name} has no table {name!r} between its marks")
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in body.split("\n") if line]
    if not rows:
        return {}
    (_, *heads), _, *rest = rows
    names = [head.partition("]")[0].removeprefix("[") for head in heads]
    return {line: dict(zip(names, cells, strict=True)) for line, *cells in rest}


def written(text: str, name: str, table: Table) -> str:
    """The text with a table in the place of the one that it has."""
    before, begin, after = text.partition(BEGIN.format(name))
    _, end, rest = after.partition(END)
    return f"{before}{begin}\n{_markdown(table)}\n{end}{rest}"


def merged(old: Table, new: Table, names: tuple[str, ...]) -> Table:
    """The new table with the columns of the old one for frameworks that are not installed here."""
    there = {name for cells in new.values() for name in cells}
    left = {line: cells for line, cells in old.items() if set(cells) - there}
    lines = [*new, *(line for line in left if line not in new)]
    return {
        line: {n: new.get(line, {}).get(n) or old.get(line, {}).get(n, "yes") for n in names}
        for line in lines
    }


def _markdown(table: Table) -> str:
    names = next(iter(table.values()), {})
    heads = [f"[{n}]({n}.md)" if PAGE.with_name(f"{n}.md").exists() else n for n in names]
    rows = [["", *heads], ["---"] * (len(heads) + 1)]
    rows += [[line, *cells.values()] for line, cells in table.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Write the page; columns of frameworks that are not installed here stay as they are."""
    text = PAGE.read_text(encoding="utf-8")
    made = tables({name: play(name) for name in FRAMEWORKS if installed(name)})
    for name, table in made.items():
        old = read(text, name)
        shown = tuple(
            n for n in FRAMEWORKS if installed(n) or any(n in row for row in old.values())
        )
        text = written(text, name, merged(old, table, shown))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
