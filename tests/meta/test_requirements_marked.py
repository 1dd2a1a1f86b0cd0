"""A `req` mark names requirements that exist: a slip of the pen would prove nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
KNOWN = set((Path(__file__).parent / "requirement_ids.txt").read_text(encoding="utf-8").split())
WITH_TESTS = ("tests", "ce_engine/testing", "ce_integrations/testing")


def ids_marked(source: str) -> list[str]:
    """Give what each `pytest.mark.req(...)` names, as source text where it is no literal."""
    return [
        argument.value
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        else ast.unparse(argument)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.req"
        for argument in node.args
    ]


DELIVERED = """
A-01 A-02 A-03 A-04 A-05 A-06 A-07 A-08 A-09 A-10 A-11 A-12 A-13 A-14 A-15 A-16 A-17 A-18 A-19 A-20 A-21 A-22
A-23 A-25 A-26 A-27 A-29 A-30 B-01 B-02 B-03 B-07 B-08 B-15 B-17 D-01 D-02 D-03 D-04 D-05 D-06 D-07 D-08 D-09 D-10 D-11
D-12 D-14 D-15 E-01 E-02 E-03 E-04 E-05 E-06
""".split()
"""What is built, wholly or for the adapters that there are."""


def test_what_is_delivered_is_marked_on_a_test() -> None:
    marked = {
        name
        for folder in WITH_TESTS
        for path in (ROOT / folder).rglob("*.py")
        for name in ids_marked(path.read_text(encoding="utf-8"))
    }
    assert [name for name in DELIVERED if name not in marked] == []


def test_every_marked_id_is_in_the_register() -> None:
    unknown = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in WITH_TESTS
        for path in (ROOT / folder).rglob("*.py")
        for name in ids_marked(path.read_text(encoding="utf-8"))
        if name not in KNOWN
    }
    assert unknown == set()


@pytest.mark.parametrize("call", ['"A-99"', '"A-1"', "name", '"A-01", "Z-01"'])
def test_a_wrong_id_is_noticed(call: str) -> None:
    assert set(ids_marked(f"@pytest.mark.req({call})\ndef test(): ...")) - KNOWN
