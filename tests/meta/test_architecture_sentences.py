"""`docs/architecture.md` says what the packages say of themselves and what the contracts hold."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path


ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
ROW = re.compile(r"^\| `(ce_\w+(?:\.\w+)*)` \| (.+?) \|$", re.MULTILINE)
ARROWS = re.compile(r"^## One way$.*?^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def first_sentence(docstring: str) -> str:
    return re.split(r"(?<=\.)\s", docstring.strip(), maxsplit=1)[0]


def sentences_in_code() -> dict[str, str]:
    found = {}
    for package in ("ce_engine", "ce_integrations"):
        for path in (ROOT / package).rglob("__init__.py"):
            parts = path.parent.relative_to(ROOT).parts
            if len(parts) > 2:  # inside a package: its own business
                continue
            name = ".".join(parts)
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found[name] = first_sentence(ast.get_docstring(tree) or "")
    return found


def test_code_and_page_say_the_same() -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) == len(dict(rows)), "a package has two rows"
    assert dict(rows) == sentences_in_code()


def test_the_arrows_on_the_page_are_the_contract() -> None:
    arrows = ARROWS.search(PAGE.read_text(encoding="utf-8"))
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each.get("containers") == ["ce_engine"])
    assert arrows is not None
    assert arrows.group(1).splitlines() == layers
