"""Thin is a number: raising one of these is a visible change, and rarely the cure."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest


FILE_LINES = 400
TABLES = {"ce_engine/__init__.py", "ce_engine/config.py"}  # of public names, of settings
FUNCTION_LINES = 40  # without its docstring: that is for readers
CORE_LINES = 18750  # of code: `ce_engine` without its drivers and tools (below)
DRIVERS = {"cli", "compare", "stores", "testing", "tokens", "upload"}
DRIVER_LINES = {
    "cli": 3345,
    "compare": 450,
    "stores": 4400,
    "testing": 2300,
    "tokens": 900,
    "upload": 2250,
}
ADAPTER_STATEMENTS = 255  # one package of `ce_integrations`, without imports and its demo
LARGER = {"autogen": 475, "langchain": 552, "llamaindex": 431}
DEMO_LINES = 250  # of code: an adapter's own part of its demo
DEMO = "demo"

ROOT = Path(__file__).parents[2]
FOLDERS = ("ce_engine", "ce_integrations", "tests", "examples", "benchmarks")
NO_ADAPTER = {"demo", "histories", "testing"}
NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


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
    long = {name: size for name, size in sizes.items() if size > FILE_LINES}
    assert {name: size for name, size in long.items() if name not in TABLES} == {}


def test_no_function_is_too_long() -> None:
    sizes = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": function_lines(node)
        for path in python_files(*FOLDERS)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert sizes
    assert {name: size for name, size in sizes.items() if size > FUNCTION_LINES} == {}


def code_lines(path: Path) -> int:
    """Lines that hold code: no blank ones, comments or docstrings."""
    source = path.read_text(encoding="utf-8")
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        text = node.value if isinstance(node, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            held.difference_update(range(text.lineno, (text.end_lineno or 0) + 1))
    return len(held)


def statements(path: Path) -> int:
    """Statements without imports and docstrings: the same however the formatter breaks their lines."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    found = [node for node in nodes if isinstance(node, ast.stmt)]
    texts = [n for n in found if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
    imports = [n for n in found if isinstance(n, ast.Import | ast.ImportFrom)]
    return len(found) - len(texts) - len(imports)


def test_the_engine_is_thin() -> None:
    sizes = {path: code_lines(path) for path in python_files("ce_engine")}
    parts = {path: path.relative_to(ROOT / "ce_engine").parts[0] for path in sizes}
    core = sum(size for path, size in sizes.items() if parts[path] not in DRIVERS)
    assert 0 < core <= CORE_LINES
    for driver, most in DRIVER_LINES.items():
        assert sum(size for path, size in sizes.items() if parts[path] == driver) <= most, driver


@pytest.mark.parametrize("name", adapters())
def test_an_adapter_and_its_demo_are_thin(name: str) -> None:
    paths = set(python_files(f"ce_integrations/{name}"))
    demo = {path for path in paths if path.name.startswith(DEMO)}
    assert sum(map(code_lines, demo)) <= DEMO_LINES
    assert 0 < sum(map(statements, paths - demo)) <= LARGER.get(name, ADAPTER_STATEMENTS)
