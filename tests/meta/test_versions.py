"""One list of versions: what an adapter says it requires is what is installed and tested."""

from __future__ import annotations

import tomllib
from configparser import ConfigParser
from importlib import import_module
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ce_integrations.demo.running import FrameworkDemo


ROOT = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT: dict[str, Any] = PYPROJECT["project"]
ADAPTERS: dict[str, str] = PROJECT["entry-points"]["ce_integrations.adapters"]
DEMOS: dict[str, str] = PROJECT["entry-points"]["ce_integrations.demos"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
ALONE = {"crewai"}
"""Frameworks that pin what others need newer: their tests have a tox environment of that name."""


def tox() -> ConfigParser:
    """`tox.ini`, with what it says once of all frameworks in its places."""
    text = (ROOT / "tox.ini").read_text(encoding="utf-8")
    parser = ConfigParser(interpolation=None)
    parser.read_string(text)
    for name, value in reversed(
        list(parser["frameworks"].items())
    ):  # a later one may have an earlier one
        text = text.replace(f"{{[frameworks]{name}}}", value)
    parser.clear()
    parser.read_string(text)
    return parser


def tox_extras() -> dict[str, set[str]]:
    """Give the extras of each tox environment that has any."""
    return {
        name.removeprefix("testenv:"): set(section["extras"].replace(",", " ").split())
        for name, section in tox().items()
        if "extras" in section
    }


def lines_tested(distribution: str) -> dict[str, Version]:
    """The version of a framework to which a tox environment, named like its group, pins it."""
    pins = {
        group: Requirement(pin)
        for group, members in PYPROJECT["dependency-groups"].items()
        for pin in members
        if isinstance(pin, str) and Requirement(pin).name == distribution
    }
    return {
        group: Version(next(iter(pin.specifier)).version)
        for group, pin in pins.items()
        if f"{group}: {group}" in (ROOT / "tox.ini").read_text(encoding="utf-8")
    }


def bounds(requirement: Requirement) -> tuple[Version, Version]:
    """The lowest version, and the first one that is too high."""
    found = {each.operator: Version(each.version) for each in requirement.specifier}
    assert set(found) == {">=", "<"}, requirement
    return found[">="], found["<"]


def test_the_registry_finds_the_adapters_of_this_project() -> None:
    from ce_integrations.install.registry import load_adapters

    assert set(ADAPTERS) <= set(load_adapters())


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_adapter_and_extra_require_the_same(name: str) -> None:
    from ce_integrations.install.registry import load_adapters

    adapter = load_adapters()[name]
    assert adapter.name == name
    assert sorted(adapter.requires) == sorted(EXTRAS[name])


@pytest.mark.parametrize("name", sorted(DEMOS))
def test_a_demo_checks_what_its_extra_installs(name: str) -> None:
    module, _, attribute = DEMOS[name].partition(":")
    demo = getattr(import_module(module), attribute)
    assert isinstance(demo, FrameworkDemo)
    assert demo.name == name
    assert sorted(demo.requires) == sorted(EXTRAS[demo.extra])
    of_demo = {each.name: each for each in map(Requirement, demo.requires)}
    for required in map(Requirement, EXTRAS[name]):
        lowest, too_high = bounds(required)
        lowest_of_demo, too_high_of_demo = bounds(of_demo[required.name])
        assert lowest <= lowest_of_demo < too_high_of_demo <= too_high


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_tox_has_every_line_that_an_adapter_supports(name: str) -> None:
    """From the oldest on; the newest is what the default run installs, which pins nothing."""
    from ce_integrations.install.registry import load_adapters

    required = Requirement(load_adapters()[name].requires[0])
    lowest, too_high = bounds(required)
    tested = lines_tested(required.name)
    assert all(required.specifier.contains(line) for line in tested.values())
    assert min(line.release[:2] for line in tested.values()) == lowest.release[:2]
    assert set(tested) <= set(tox()["tox"]["labels"].replace(",", " ").split())
    if name in ALONE:
        check_its_own_environment(name)
        return
    installed = Version(version(required.name))
    assert installed > max(tested.values())
    if too_high.major == 0:  # each minor is a line of its own
        minors = {line.minor for line in (*tested.values(), installed)}
        assert minors == set(range(lowest.minor, too_high.minor))
    else:
        majors = {line.major for line in tested.values()}
        assert majors == set(range(lowest.major, too_high.major))
    assert name in tox_extras()["py{,311,312,313}{,-full}"]
    assert tox()["testenv:py{,311,312,313}{,-full}"]["dependency_groups"] == "test"
    assert "py" in tox()["tox"]["env_list"].replace(",", " ").split()


def check_its_own_environment(name: str) -> None:
    """It pins nothing, is in the default run, and `py` leaves its tests out by name."""
    assert name in tox_extras()[name]
    groups = set(tox()[f"testenv:{name}"]["dependency_groups"].split(", "))
    assert "test" in groups
    assert not groups & set(lines_tested(name))
    assert f"tests/adapters/{name}" in tox()[f"testenv:{name}"]["commands"]
    assert name in tox()["tox"]["env_list"].replace(",", " ").split()
    py = tox()["testenv:py{,311,312,313}{,-full}"]["commands"].strip().splitlines()
    assert all(f"--ignore=tests/adapters/{name}" in command for command in py)


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_tox_tests_and_types_have_the_adapter(name: str) -> None:
    having = [environment for environment, extras in tox_extras().items() if name in extras]
    assert any(environment.startswith("py") or environment in ALONE for environment in having)
    assert "types" in having


FOLDERS = "ce_engine.vocabularies"


@pytest.mark.parametrize("group", [*PROJECT["entry-points"], "console_scripts"])
def test_entry_points_resolve(group: str) -> None:
    declared = PROJECT["scripts"] if group == "console_scripts" else PROJECT["entry-points"][group]
    installed = {point.name: point for point in entry_points(group=group)}
    assert set(declared) <= set(installed), "the installed distribution is older than pyproject"
    for name, value in declared.items():
        assert installed[name].value == value
        assert group == FOLDERS or installed[name].load() is not None


def test_every_requirement_has_a_lower_bound() -> None:
    of_extras = [each for extra in EXTRAS.values() for each in extra]
    found = [Requirement(each) for each in (*PROJECT["dependencies"], *of_extras)]
    bounds = {str(r): {s.operator for s in r.specifier} for r in found}
    assert [name for name, operators in bounds.items() if not operators & {">=", "==", "~="}] == []


REPAIRED = {"starlette": "0.49.1"}
"""Releases below these have a flaw that concerns us: here a `Range` header that keeps `ce ui`'s files busy (CVE-2025-62727)."""


@pytest.mark.parametrize("name", REPAIRED)
def test_no_lower_bound_lets_in_a_release_with_a_known_flaw(name: str) -> None:
    everything = [*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)]
    found = [bounds(each)[0] for each in map(Requirement, everything) if each.name == name]
    assert found
    assert min(found) >= Version(REPAIRED[name])


def test_the_lock_of_ci_is_what_we_require() -> None:
    lines = (ROOT / "constraints" / "ci.txt").read_text("utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    locked: dict[str, set[str]] = {}
    for pin in pins:
        (exact,) = pin.specifier
        assert exact.operator == "==", pin
        locked.setdefault(canonicalize_name(pin.name), set()).add(exact.version)
    newest = tox_extras()["py{,311,312,313}{,-full}"]
    wanted = [*PROJECT["dependencies"], *(each for name in newest for each in EXTRAS[name])]
    for each in map(Requirement, wanted):
        versions = locked.get(canonicalize_name(each.name), set())
        assert versions, f"{each} is not locked; run: tox -e lock"
        assert all(each.specifier.contains(v) for v in versions), f"{each}; run: tox -e lock"
