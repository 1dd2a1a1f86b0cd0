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
