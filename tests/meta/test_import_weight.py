"""Importing us is cheap: nothing comes along that the app, or the command, did not ask for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.hosts.cli_host import TALK, fill, url_of


ROOT = Path(__file__).parents[2]


def installed_in() -> Path:
    """Give the folder that the tests themselves import `ce_engine` from."""
    spec = find_spec("ce_engine")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1]


def loaded_after(statement: str, *args: str) -> set[str]:
    """Run `statement` in a fresh interpreter with these arguments and give the modules it has loaded."""
    report = "import json, sys; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{report}", *args],
        env={**os.environ, "PYTHONPATH": str(installed_in())},
        check=True,
        stdout=subprocess.PIPE,
        timeout=60,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def modules_after(statement: str) -> set[str]:
    """The top-level packages of these modules."""
    return {name.partition(".")[0] for name in loaded_after(statement)}


COMMAND = """
from ce_engine.apps.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""

HEAVY = {"alembic", "jsonpath", "pydantic", "regex", "rich", "sqlalchemy", "tiktoken"}
"""What takes its time to import."""


def ours(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name.startswith("ce_engine.")}


def test_the_engine_is_imported_when_a_name_of_it_is_asked_for() -> None:
    loaded = loaded_after("import ce_engine")
    assert loaded & {*HEAVY, "asyncio", "ssl"} == set()
    assert ours(loaded) == set()
    assert loaded_after("from ce_engine import Scope") & HEAVY == set()


def test_the_version_is_told_without_the_engine() -> None:
    loaded = loaded_after(COMMAND, "--version")
    assert loaded & {*HEAVY, "asyncio", "ssl"} == set()
    assert ours(loaded) == {"ce_engine.apps", "ce_engine.apps.cli", "ce_engine.apps.cli.app"}


@pytest.mark.parametrize("command", [["sessions"], ["sessions", "--json"], ["show", "NAME"]])
def test_what_is_only_read_needs_no_engine(command: list[str], tmp_path: Path) -> None:
    fill(url := url_of(tmp_path / "ce.db"))
    args = [TALK.session_id if arg == "NAME" else arg for arg in command]
    loaded = loaded_after(COMMAND, *args, "--store", url, "--account", "acme")
    assert loaded & {"alembic", "jsonpath", "regex", "sqlalchemy.orm", "tiktoken"} == set()
    parts = {"apps.cli.doctor", "apps.cli.demo", "config", "create", "engine", "memory", "prepare"}
    parts |= {"runtime.journal", "runtime.loop", "schema.selectors", "sessions", "stores.documents"}
    parts |= {"text.redaction", "text.tokens", "turns"}
    assert loaded & {f"ce_engine.{part}" for part in parts} == set()


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
