"""docs/security.md lists what stays readable where content is sealed; this holds the list."""

from __future__ import annotations

import re
from pathlib import Path

from ce_engine.stores.documents.record import OPEN
from ce_engine.stores.tables import tables


PAGE = Path(__file__).parents[3] / "docs" / "security.md"
_PLACE = re.compile(r"^\| (?P<place>`[^|]+`) \| (?P<names>[^|]+) \|", re.MULTILINE)


def listed() -> dict[str, set[str]]:
    """By place the names that the page's table has."""
    part = PAGE.read_text("utf-8").partition("**What stays readable**")[2].partition("\n## ")[0]
    return {
        found["place"].strip("`"): set(re.findall(r"`([^`]+)`", found["names"]))
        for found in _PLACE.finditer(part)
    }


def test_every_column_is_sealed_or_listed() -> None:
    readable = {
        table.name: {
            column.name
            for column in table.c
            if not isinstance(column.type, tables.Sealed) and column.name not in ("id", "session")
        }
        for table in tables.metadata.sorted_tables
        if table is not tables.revisions
    }
    page = listed()
    assert {name: page.get(name) for name in readable} == readable


def test_every_part_of_a_file_is_sealed_or_listed() -> None:
    assert listed()["session.json"] == OPEN
