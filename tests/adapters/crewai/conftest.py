"""Models that talk to the wire; CrewAI calls nobody else, and keeps its files where the test is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adapters.crewai import home  # noqa: F401 - its switches are read when CrewAI is imported


@pytest.fixture(autouse=True)
def _at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another release's files in the user's home are not this one's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crewai"))


@pytest.fixture
def install() -> Any:
    from ce_integrations.crewai import install_ce

    return install_ce
