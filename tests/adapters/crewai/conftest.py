"""Models that talk to the wire; CrewAI calls nobody else, and keeps its files where the test is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


# Read when it is imported: what it would tell its makers, and what it would fetch.
os.environ.update(
    {
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_DISABLE_TRACKING": "true",
        "CREWAI_DISABLE_VERSION_CHECK": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
)


@pytest.fixture(autouse=True)
def _at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another release's files in the user's home are not this one's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crewai"))


@pytest.fixture
def install() -> Any:
    from ce_integrations.crewai import install_ce

    return install_ce
