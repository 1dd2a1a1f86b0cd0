"""Importing us is cheap: no framework comes along that the app did not ask for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]


def installed_in() -> Path:
    """Give the folder that the tests themselves import `ce_engine` from."""
    spec = find_spec("ce_engine")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1]


def modules_after(statement: str) -> set[str]:
    """Run `statement` in a fresh interpreter and give the top-level packages it has loaded."""
    report = "import json, sys; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{report}"],
        env={**os.environ, "PYTHONPATH": str(installed_in())},
        check=True,
        stdout=subprocess.PIPE,
        timeout=60,
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def frameworks() -> set[str]:
    """Give what the import contract of the engine forbids: one list for both."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    names = {contract["name"]: contract.get("forbidden_modules", []) for contract in contracts}
    return set(names["The engine knows no framework"]) - {"ce_integrations"}


@pytest.mark.parametrize(
    "package", ["ce_engine", "ce_integrations", "ce_integrations.demo.running"]
)
def test_no_framework_comes_along(package: str) -> None:
    assert {"langchain", "langchain_core", "langgraph"} <= frameworks()
    assert modules_after(f"import {package}") & frameworks() == set()


def test_the_adapter_needs_langchain_core_only() -> None:
    loaded = modules_after("import ce_integrations.langchain")
    assert loaded & {"langchain", "langchain_openai", "langgraph"} == set()


def test_in_tox_the_wheel_is_tested() -> None:
    under_tox = "TOX_ENV_NAME" in os.environ
    assert installed_in().is_relative_to(Path(sys.prefix) if under_tox else ROOT)
