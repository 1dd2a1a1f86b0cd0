"""Writes `docs/register.md`, every requirement with its tests and its state: `python tests/meta/register.py`."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "register.md"
ROWS = Path(__file__).with_name("register.toml")
WITH_TESTS = ("tests", "ce_engine/testing", "ce_integrations/testing")
CHAPTERS = {
    "A": "Context SDK",
    "B": "Sessions and memory",
    "C": "Memory's write path",
    "D": "Layered context engine",
    "E": "Layering rules",
}
HEAD = """# The register

Every requirement that this project was given, the files of tests that prove it, and its state. A row *holds*, or it holds *by design
otherwise* than it was asked for, or *not yet*; one without a test is not yet. A test names its rows, `@pytest.mark.req("A-11")`, and
`pytest -m req` runs them all.

`python tests/meta/register.py` writes this page from those marks and from `tests/meta/register.toml`; a test fails where it says otherwise.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A requirement; `otherwise` and `missing` are why it does not simply hold, `tests` are files."""

    name: str
    title: str
    otherwise: str = ""
    missing: str = ""
    tests: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """`holds`, `by design otherwise: why`, or `not yet: what is missing`."""
        if not self.tests:
            return "not yet"
        if self.missing:
            return f"not yet: {self.missing}"
        return f"by design otherwise: {self.otherwise}" if self.otherwise else "holds"


def ids_marked(source: str) -> list[str]:
    """What each `pytest.mark.req(...)` names, as source text where it is no literal."""
    return [
        argument.value
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        else ast.unparse(argument)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "req"
        and ast.unparse(node.func) == "pytest.mark.req"
        for argument in node.args
    ]


@cache
def marked() -> Sequence[tuple[str, str]]:
    """The file, from the project's root, and the id of every mark."""
    return [
        (path.relative_to(ROOT).as_posix(), name)
        for folder in WITH_TESTS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if ".mark.req" in (source := path.read_text(encoding="utf-8"))
        for name in dict.fromkeys(ids_marked(source))
    ]


def register() -> list[Row]:
    """All rows with their tests, in the order of their ids."""
    tests: dict[str, list[str]] = {}
    for where, name in marked():
        tests.setdefault(name, []).append(where)
    rows: Mapping[str, dict[str, str]] = tomllib.loads(ROWS.read_text(encoding="utf-8"))
    return [
        Row(name, **fields, tests=tuple(tests.get(name, ())))
        for name, fields in sorted(rows.items())
    ]


def page(rows: list[Row]) -> str:
    """The page as it is to be."""
    lines = [HEAD]
    for chapter, title in CHAPTERS.items():
        lines += [
            f"## {chapter}. {title}\n",
            "| id | requirement | state | tests |",
            "|---|---|---|---|",
        ]
        for row in rows:
            if row.name.startswith(chapter):
                tests = "<br>".join(f"[{_short(each)}](../{each})" for each in row.tests) or "none"
                lines.append(f"| {row.name} | {row.title} | {row.state} | {tests} |")
        lines.append("")
    return "\n".join(lines)


def _short(path: str) -> str:
    return path.removeprefix("tests/").removesuffix(".py")


if __name__ == "__main__":
    PAGE.write_text(page(register()), encoding="utf-8")
