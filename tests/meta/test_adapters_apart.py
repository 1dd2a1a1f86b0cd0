"""The engine knows no framework, and adapters share what they have in common instead of repeating it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
FRAMEWORKS = re.compile(
    r"lang-?(chain|graph)|llama.?index|auto-?gen(?!erat)|crew-?ai|haystack|semantic.?kernel",
    re.IGNORECASE,
)
STORED = "ce_engine/stores/tables/packing.py"
"""Words by whose places data are stored: bytes of the format, which may not change."""
PACKAGES = {
    "autogen": ("autogen_",),
    "haystack": ("haystack",),
    "crewai": ("crewai",),
    "langchain": ("langchain", "langgraph"),
    "llamaindex": ("llama_index", "workflows"),
    "semantic_kernel": ("semantic_kernel",),
}
"""How the modules of a framework begin, by its adapter."""
RUN = 8
"""Lines, one after the other, that may not stand in two adapters."""


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def adapters() -> list[str]:
    inside = sorted((ROOT / "ce_integrations").iterdir())
    return [each.name for each in inside if (each / "installer.py").exists()]


def code(path: Path) -> Iterator[str]:
    """The lines that say something of their own: no blanks, brackets, imports or comments."""
    for line in path.read_text(encoding="utf-8").splitlines():
        said = line.strip()
        if re.search(r"\w", said) and not re.match(r"(from|import|#|@pytest)\b", said):
            yield said


def runs(adapter: str) -> dict[tuple[str, ...], str]:
    """Each run of lines of an adapter, with the file that it is in."""
    found = {}
    for path in sources(f"ce_integrations/{adapter}"):
        lines = list(code(path))
        for first in range(len(lines) - RUN + 1):
            found[tuple(lines[first : first + RUN])] = path.name
    return found


def test_the_engine_names_no_framework() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sources("ce_engine")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if FRAMEWORKS.search(line) and path != ROOT / STORED
    ]
    assert named == []


def imported(path: Path) -> set[str]:
    """The modules that a file imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_each_adapter_has_its_framework_named_here() -> None:
    assert sorted(PACKAGES) == adapters()


def test_a_framework_is_imported_by_its_own_adapter_only() -> None:
    strangers = []
    for path in sources("ce_integrations"):
        folder = path.relative_to(ROOT / "ce_integrations").parts[0]
        others = {name: own for name, own in PACKAGES.items() if name != folder}
        for module in imported(path):
            for name, own in others.items():
                if module.startswith((*own, f"ce_integrations.{name}")):
                    strangers.append(f"{path.relative_to(ROOT)}: {module}")
    assert strangers == []


def test_what_two_adapters_have_in_common_stands_once() -> None:
    found = {adapter: runs(adapter) for adapter in adapters()}
    assert found
    twice = [
        f"{one}/{found[one][run]} and {other}/{found[other][run]}: {run[0]}"
        for one, other in combinations(found, 2)
        for run in found[one].keys() & found[other].keys()
    ]
    assert twice == []


def test_a_run_that_stands_twice_would_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        folder = tmp_path / "ce_integrations" / name
        folder.mkdir(parents=True)
        said = [f"{name} = 0", *(f"    value_{n} = {n}" for n in range(RUN))]
        (folder / "installer.py").write_text("\n".join(said), encoding="utf-8")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    with pytest.raises(AssertionError, match=r"one/installer\.py and other/installer\.py"):
        test_what_two_adapters_have_in_common_stands_once()
