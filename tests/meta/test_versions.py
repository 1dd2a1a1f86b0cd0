"""One list of versions: what an adapter says it requires is what is installed and tested."""

from __future__ import annotations

import tomllib
from configparser import ConfigParser
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest


ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ADAPTERS: dict[str, str] = PROJECT["entry-points"]["ce_integrations.adapters"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def tox_extras() -> dict[str, set[str]]:
    """Give the extras of each tox environment that has any."""
    parser = ConfigParser(interpolation=None)
    parser.read_string((ROOT / "tox.ini").read_text(encoding="utf-8"))
    return {
        name.removeprefix("testenv:"): set(parser[name]["extras"].replace(",", " ").split())
        for name in parser.sections()
        if "extras" in parser[name]
    }


def test_the_registry_finds_the_adapters_of_this_project() -> None:
    from ce_integrations.registry import load_adapters

    assert set(ADAPTERS) <= set(load_adapters())


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_adapter_extra_and_demo_require_the_same(name: str) -> None:
    from ce_integrations.registry import load_adapters

    adapter = load_adapters()[name]
    assert adapter.name == name
    assert sorted(adapter.requires) == sorted(EXTRAS[name])
    assert set(adapter.requires) <= set(EXTRAS["demo"])


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_tox_tests_and_types_have_the_adapter(name: str) -> None:
    having = [environment for environment, extras in tox_extras().items() if name in extras]
    assert any(environment.startswith("py") for environment in having)
    assert "types" in having


@pytest.mark.parametrize("group", [*PROJECT["entry-points"], "console_scripts"])
def test_entry_points_resolve(group: str) -> None:
    declared = PROJECT["scripts"] if group == "console_scripts" else PROJECT["entry-points"][group]
    installed = {point.name: point for point in entry_points(group=group)}
    assert set(declared) <= set(installed), "the installed distribution is older than pyproject"
    for name, value in declared.items():
        assert installed[name].value == value
        assert installed[name].load() is not None
