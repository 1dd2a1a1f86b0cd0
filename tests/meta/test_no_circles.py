"""No module of ours imports itself by way of others, not even for its types."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]


def modules() -> dict[str, ast.Module]:
    found = {}
    for package in ("ce_engine", "ce_integrations"):
        for path in (ROOT / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """What each module imports of ours: of a package that hands names on, the package."""
    found: dict[str, set[str]] = {}
    for name, tree in trees.items():
        found[name] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                named = {f"{node.module}.{alias.name}" for alias in node.names}
                found[name] |= (named & trees.keys()) or {node.module} & trees.keys()
            elif isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names} & trees.keys()
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = imports(modules())
    assert graph["ce_engine.create"] >= {"ce_engine.engine"}
    assert circle(graph) == []


@pytest.mark.parametrize("back", ["a", "b"])
def test_a_circle_would_be_seen(back: str) -> None:
    assert back in circle({"a": {"b"}, "b": {"c"}, "c": {back}})
