"""Checks that a bill of materials names us and all that we require, and puts it beside the wheel."""

from __future__ import annotations

import argparse
import json
import shutil
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


ROOT = Path(__file__).parents[2]


def missing(bill: Path) -> list[str]:
    """The direct requirements that a bill does not name with a version, and ourselves."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = json.loads(bill.read_text("utf-8"))
    parts = [*found["components"], found["metadata"]["component"]]
    named = {canonicalize_name(part["name"]) for part in parts if part.get("version")}
    wanted = {project["name"], *(Requirement(each).name for each in project["dependencies"])}
    return sorted(name for name in wanted if canonicalize_name(name) not in named)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bill", type=Path)
    parser.add_argument("to", type=Path)
    asked = parser.parse_args()
    if left := missing(asked.bill):
        parser.error(f"not in it: {', '.join(left)}")
    asked.to.parent.mkdir(exist_ok=True)
    shutil.copy(asked.bill, asked.to)
    print(f"{len(json.loads(asked.to.read_text('utf-8'))['components'])} components in {asked.to}")


if __name__ == "__main__":
    main()
