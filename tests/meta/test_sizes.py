"""Thin is a number: raising one of these is a visible change, and rarely the cure."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest


FILE_LINES = 400
FUNCTION_LINES = 40  # without its docstring: that is for readers
ENGINE_LINES = 6000  # `ce_engine` without `ce_engine.cli`
ADAPTER_LINES = 799  # one package of `ce_integrations`, without its demo

ROOT = Path(__file__).parents[2]
FOLDERS = ("ce_engine", "ce_integrations", "tests", "examples", "benchmarks")
NO_ADAPTER = {"testing"}


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def adapters() -> list[str]:
    folders = [path.parent.name for path in (ROOT / "ce_integrations").glob("*/__init__.py")]
    return sorted(set(folders) - NO_ADAPTER)


def test_no_file_is_too_long() -> None:
    sizes = {str(path.relative_to(ROOT)): lines(path) for path in python_files(*FOLDERS)}
    assert sizes
    assert {name: size for name, size in sizes.items() if size > FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    sizes = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": function_lines(node)
        for path in python_files(*FOLDERS)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert sizes
    assert {name: size for name, size in sizes.items() if size > FUNCTION_LINES} == {}


def test_the_engine_is_thin() -> None:
    cli = ROOT / "ce_engine" / "cli"
    sizes = [lines(path) for path in python_files("ce_engine") if cli not in path.parents]
    assert 0 < sum(sizes) <= ENGINE_LINES


@pytest.mark.parametrize("name", adapters())
def test_an_adapter_is_thin(name: str) -> None:
    files = python_files(f"ce_integrations/{name}")
    assert 0 < sum(lines(path) for path in files if path.name != "demo.py") <= ADAPTER_LINES
