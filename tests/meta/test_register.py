"""`docs/register.md` tells each requirement's tests and state as they are."""

from __future__ import annotations

import re
from itertools import groupby

import pytest

from tests.meta.register import CHAPTERS, PAGE, Row, ids_marked, marked, page, register


LAST = {"A": 31, "B": 17, "C": 13, "D": 16, "E": 6}


def test_the_page_says_what_the_tests_say() -> None:
    """Else: python tests/meta/register.py."""
    assert PAGE.read_text(encoding="utf-8") == page(register())


def test_every_row_of_the_register_is_there_once() -> None:
    names = [row.name for row in register()]
    expected = [f"{chapter}-{n:02}" for chapter in CHAPTERS for n in range(1, LAST[chapter] + 1)]
    assert names == expected
    assert [len(list(rows)) for _, rows in groupby(names, lambda name: name[0])] == [*LAST.values()]
    told = re.findall(r"^\| ([A-E]-\d\d) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert told == names
    assert all(row.title for row in register())


def test_every_marked_id_is_in_the_register() -> None:
    """A slip of the pen would prove nothing."""
    known = {row.name for row in register()}
    assert [(where, name) for where, name in marked() if name not in known] == []


@pytest.mark.parametrize("call", ['"A-99"', '"A-1"', "name", '"A-01", "Z-01"'])
def test_a_wrong_id_is_noticed(call: str) -> None:
    known = {row.name for row in register()}
    assert set(ids_marked(f"@pytest.mark.req({call})\ndef test(): ...")) - known


def test_a_row_without_a_test_does_not_hold() -> None:
    assert Row("A-01", "Types").state == "not yet"
    assert Row("A-01", "Types", otherwise="because").state == "not yet"
    assert Row("A-01", "Types", tests=("t",)).state == "holds"
    assert Row("A-01", "Types", missing="one", tests=("t",)).state == "not yet: one"
    assert Row("A-01", "Types", otherwise="because", tests=("t",)).state == (
        "by design otherwise: because"
    )
