"""`ce doctor` on frameworks: whether their releases are in range, and what else is known to go wrong."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tests.hosts.doctor_host import adapter, distribution, doctor, requiring, site


__all__ = ["site"]


# Adapters


def test_a_framework_in_range(site: Path) -> None:
    distribution(site, "acme", "2.4.1")
    adapter(site, "acme", requiring("acme>=2.3,<3"))
    assert doctor()["adapter acme"] == ("OK", "acme 2.4.1 (supported: >=2.3,<3)", "")


def test_a_framework_out_of_range_fails_with_its_cure(site: Path) -> None:
    distribution(site, "acme", "3.0")
    adapter(site, "acme", requiring("acme>=2.3,<3"))
    status, detail, cure = doctor()["adapter acme"]
    assert (status, cure) == ("FAIL", 'pip install "acme>=2.3,<3"')
    assert "acme 3.0" in detail


# Conflicts


REAL = """
from typing import ClassVar
from ce_integrations.install.adapter import Adapter, Capabilities

class Made(Adapter):
    name = {name!r}
    requires = ({requires!r},)
    def accepts(self, target): return False
    def attach(self, target, hooks): raise NotImplementedError

ADAPTER = Made()
"""


def framework(site: Path, name: str, dist: str, version: str, *metadata: str) -> None:
    """A framework that is installed, and an adapter of ours for it."""
    distribution(site, dist, version, *metadata)
    adapter(site, name, REAL.format(name=name, requires=f"{dist}>=1"))


@pytest.fixture
def switches(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("CREWAI_DISABLE_TELEMETRY", "CREWAI_DISABLE_TRACKING", "CREWAI_TRACING_ENABLED"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OTEL_SDK_DISABLED", "HAYSTACK_TELEMETRY_ENABLED"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_a_pin_of_a_framework_that_is_not_kept_is_told_with_its_cure(site: Path) -> None:
    pins = ("Requires-Dist: pydantic<2,>=1.9", 'Requires-Dist: anyio<1; extra == "x"')
    framework(site, "crewish", "crewish", "1.15.30", *pins, "Requires-Dist: not-here>=3")
    distribution(site, "crewish-tools", "2", "Requires-Dist: crewish", "Requires-Dist: typer>=99")
    found = doctor()
    status, detail, cure = found["pins crewish"]
    assert status == "WARN"
    assert detail.startswith("crewish 1.15.30 wants pydantic>=1.9,<2; ")
    assert cure.startswith('pip install "pydantic>=1.9,<2". If another package needs ')
    assert "typer>=99" in found["pins crewish-tools"][1]
    assert "not-here" not in json.dumps(found.checks)  # what pip would have brought is no conflict
    assert "anyio<1" not in json.dumps(found.checks)


def test_frameworks_that_get_what_they_pin_are_one_line(site: Path) -> None:
    framework(site, "crewish", "crewish", "1.15.30", "Requires-Dist: pydantic>=2")
    distribution(site, "crewish-odd", "1", "Requires-Dist: crewish", "Requires-Dist: >> no <<")
    found = doctor()
    assert found["pins"][0] == "OK"
    assert not any(name.startswith("pins crewish") for name in found.checks)


def test_what_orchestration_of_semantic_kernel_needs(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework(site, "sk", "semantic-kernel", "1.45.0")
    monkeypatch.setattr("ce_integrations.install.advice.version", _no_protobuf)
    status, detail, cure = doctor()["sk protobuf"]
    assert status == "WARN"
    assert "orchestration" in detail
    assert cure.startswith("pip install protobuf")
    monkeypatch.undo()
    monkeypatch.syspath_prepend(site)
    distribution(site, "protobuf", "6.0")
    assert "sk protobuf" not in doctor().checks


def _no_protobuf(name: str) -> str:
    raise PackageNotFoundError(name)


def test_the_telemetry_switches_of_crewai(site: Path, switches: pytest.MonkeyPatch) -> None:
    framework(site, "crew", "crewai", "1.15.30")
    found = doctor()
    status, detail, cure = found["crew telemetry"]
    assert status == "WARN"
    assert "telemetry.crewai.com" in detail
    assert "CREWAI_DISABLE_TELEMETRY=true" in cure
    assert "CREWAI_TRACING_ENABLED=false" in found["crew tracing"][2]
    assert "crew OTEL_SDK_DISABLED" not in found.checks

    switches.setenv("CREWAI_DISABLE_TELEMETRY", "True")
    switches.setenv("CREWAI_TRACING_ENABLED", "false")
    assert not {"crew telemetry", "crew tracing"} & set(doctor().checks)

    switches.delenv("CREWAI_DISABLE_TELEMETRY")
    switches.setenv("OTEL_SDK_DISABLED", "true")
    found = doctor()
    assert "crew telemetry" not in found.checks
    status, detail, cure = found["crew OTEL_SDK_DISABLED"]
    assert (status, "all OpenTelemetry of the app" in detail) == ("WARN", True)
    assert "CREWAI_DISABLE_TELEMETRY=true" in cure


def test_the_telemetry_switch_of_haystack(site: Path, switches: pytest.MonkeyPatch) -> None:
    framework(site, "hay", "haystack-ai", "3.4.1")
    assert "HAYSTACK_TELEMETRY_ENABLED=false" in doctor()["hay telemetry"][2]
    switches.setenv("HAYSTACK_TELEMETRY_ENABLED", "0")
    assert "hay telemetry" not in doctor().checks


def test_an_adapter_may_know_more_of_its_framework(site: Path) -> None:
    distribution(site, "acme", "2.4.1")
    body = """
class Item:
    about, cure = "cache", "Empty it"
    def problem(self): return "it is full"

class ADAPTER:
    requires = ("acme>=2",)
    advice = (Item(),)
"""
    adapter(site, "acme", body)
    assert doctor()["acme cache"] == ("WARN", "it is full", "Empty it")


def test_half_a_framework_fails(site: Path) -> None:
    distribution(site, "acme", "2.4.1")
    adapter(site, "acme", requiring("acme>=2.3,<3", "acme-tools>=1"))
    status, detail, cure = doctor()["adapter acme"]
    assert (status, cure) == ("FAIL", 'pip install "acme-tools>=1"')
    assert "acme-tools not installed" in detail


def test_a_framework_that_is_not_installed_is_no_fault(site: Path) -> None:
    adapter(site, "acme", requiring("acme>=2.3,<3"))
    assert doctor()["adapter acme"][0] == "OK"


def test_an_adapter_that_imports_a_framework_that_is_not_installed_is_no_fault(site: Path) -> None:
    extra = 'Requires-Dist: acme<3,>=2.3; extra == "acme"'
    adapter(site, "acme", "import acme_framework", "Provides-Extra: acme", extra)
    status, detail, _ = doctor()["adapter acme"]
    assert status == "OK"
    assert "acme<3,>=2.3 not installed" in detail


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise RuntimeError('out of order')", "RuntimeError: out of order"),
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("ADAPTER = 7", "AttributeError"),
        (requiring("acme >> 2"), "InvalidRequirement"),
    ],
)
def test_a_broken_adapter_is_a_line_and_no_crash(site: Path, body: str, words: str) -> None:
    adapter(site, "acme", body)
    status, detail, cure = doctor()["adapter acme"]
    assert status == "FAIL"
    assert words in detail
    assert "acme-ce" in cure
