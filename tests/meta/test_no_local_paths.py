"""Nothing of the machine on which a file was written is in the file."""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pytest


if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
# Built from parts, so that this file does not find itself.
INSTALLER_OPTIONS = "|".join(("index" + "-url", "find" + "-links", "trusted" + "-host"))
REGISTRIES = "|".join(
    ("pypi" + r"\.org", "pythonhosted" + r"\.org", r"://[^\s\"']+/simp" + r"le\b")
)


def local_places() -> list[Path]:
    """Name what is local to this very machine: home, Python, this clone and what lies beside it."""
    beside = [path for path in ROOT.parent.iterdir() if path.is_dir()]
    places = [Path.home(), Path(sys.prefix), ROOT, *beside]
    # One step below `/` is too common to be local (`/app`, `/usr`), but for the home of root.
    return [place for place in places if len(place.parts) > 2 or place.name == "root"]


def forbidden() -> re.Pattern[str]:
    places = "|".join(sorted(re.escape(str(place)) for place in local_places()))
    return re.compile(rf"(?<![\w.-])(?:{places})(?![\w>-])|{INSTALLER_OPTIONS}|{REGISTRIES}")


def kept_files(folder: Path, ignored: list[str]) -> Iterator[Path]:
    """Walk what git would keep; without git, which does not run for everybody who has the files."""
    for path in sorted(folder.iterdir()):
        name = path.name + "/" * path.is_dir()
        if name == ".git/" or name == ".git" or any(fnmatch(name, each) for each in ignored):
            continue
        if path.is_dir():
            yield from kept_files(path, ignored)
        else:
            yield path


def test_no_file_names_this_machine_or_a_registry() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    pattern = forbidden()
    files = list(kept_files(ROOT, ignored))
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in files
        for match in pattern.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert ROOT / "pyproject.toml" in files
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        f"see {ROOT}/ce_engine",
        f"file://{ROOT}",
        "pip install --index" + "-url x",
        "https://py" + "pi.org/p",
        "https://mirror.example/simp" + "le/",
    ],
    ids=["path", "url", "option", "registry", "mirror"],
)
def test_a_local_name_is_noticed(text: str) -> None:
    assert forbidden().search(text)
