"""The page on adapters shows the adapter that is installed and tested, not one like it."""

from __future__ import annotations

import ast
import tomllib

from tests.meta.pages import ROOT, blocks


PAGE = "docs/write-an-adapter.md"
HOME = ROOT / "tests" / "makebelieve" / "ce_acme"
ADAPTER_LINES = 80
LESS_FRIENDLY = ROOT / "tests" / "makebelieve" / "ce_bolt" / "ce_bolt.py"
LESS_FRIENDLY_LINES = 150


def test_the_page_has_the_whole_adapter() -> None:
    adapter = (HOME / "ce_acme.py").read_text(encoding="utf-8")
    assert blocks(PAGE, "python")[0].lstrip("\n") == adapter
    assert len(adapter.splitlines()) <= ADAPTER_LINES


def test_the_page_has_the_one_for_a_less_friendly_framework() -> None:
    adapter = LESS_FRIENDLY.read_text(encoding="utf-8")
    assert blocks(PAGE, "python")[-1].lstrip("\n") == adapter
    assert len(adapter.splitlines()) <= LESS_FRIENDLY_LINES


def test_the_page_has_its_entry_point() -> None:
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (shown,) = blocks(PAGE, "toml")
    assert tomllib.loads(shown)["project"]["entry-points"] == project["entry-points"]


def test_what_the_page_shows_of_the_tests_stands_there() -> None:
    """Types are left out on the page."""
    tests = (HOME / "test_ce_acme.py").read_text(encoding="utf-8")
    shown, there = _methods(blocks(PAGE, "python")[1]), _methods(tests)
    assert {"make_target", "ask"} <= set(shown)
    assert shown == {name: there[name] for name in shown}


def _methods(source: str) -> dict[str, str]:
    return {
        node.name: "\n".join(map(ast.unparse, node.body))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    }
