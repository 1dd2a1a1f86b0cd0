"""Thin is a number: raising one of these is a visible change, and rarely the cure."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

import pytest


FUNCTION_LINES = 40  # without its docstring: that is for readers

# Lines of code that each room needs today, a little rounded up.
ROOMS = {
    "ce_engine": 1360,
    "ce_engine/apps": 12445,
    "ce_engine/audit": 5890,
    "ce_engine/memory": 765,
    "ce_engine/ports": 390,
    "ce_engine/prepare": 5320,
    "ce_engine/runtime": 1530,
    "ce_engine/schema": 3155,
    "ce_engine/sessions": 1850,
    "ce_engine/stores": 9345,
    "ce_engine/testing": 2485,
    "ce_engine/text": 6335,
    "ce_engine/turns": 6415,
    "ce_integrations": 40,
    "ce_integrations/calls": 1805,
    "ce_integrations/demo": 570,
    "ce_integrations/histories": 350,
    "ce_integrations/install": 860,
    "ce_integrations/mapping": 985,
    "ce_integrations/testing": 3095,
    "ce_integrations/identity": 570,
    "ce_integrations/wrapping": 625,
}
ADAPTER_STATEMENTS = 270  # one framework's folder, without imports and its demo
LARGER = {"autogen": 478, "crewai": 285, "haystack": 280, "langchain": 579, "llamaindex": 431}
DEMO_LINES = 250  # of code: an adapter's own part of its demo
DEMO = "demo"

ROOT = Path(__file__).parents[2]
FOLDERS = ("ce_engine", "ce_integrations", "tests", "examples", "benchmarks")
ADAPTERS = {"autogen", "crewai", "haystack", "langchain", "llamaindex", "semantic_kernel"}
NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


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


def room(path: Path) -> str:
    """The room of a file: its folder inside the package, or the package for what is loose in it."""
    package, *inner = path.relative_to(ROOT).parts
    return f"{package}/{inner[0]}" if len(inner) > 1 else package


def test_a_room_is_as_large_as_its_budget() -> None:
    sizes: Counter[str] = Counter()
    for path in python_files("ce_engine", "ce_integrations"):
        if room(path).rpartition("/")[2] not in ADAPTERS:
            sizes[room(path)] += code_lines(path)
    assert sizes.keys() == ROOMS.keys()
    assert {name: size for name, size in sizes.items() if size > ROOMS[name]} == {}


def test_few_modules_are_loose() -> None:
    loose = {path.name for path in (ROOT / "ce_engine").glob("*.py")} - {"__init__.py"}
    assert loose == {"engine.py", "sync.py", "create.py", "config.py", "errors.py"}
    assert [path.name for path in (ROOT / "ce_integrations").glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_an_adapter_and_its_demo_are_thin(name: str) -> None:
    paths = set(python_files(f"ce_integrations/{name}"))
    demo = {path for path in paths if path.name.startswith(DEMO)}
    assert sum(map(code_lines, demo)) <= DEMO_LINES
    assert 0 < sum(map(statements, paths - demo)) <= LARGER.get(name, ADAPTER_STATEMENTS)
