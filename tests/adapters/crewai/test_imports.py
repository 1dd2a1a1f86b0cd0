"""What an import costs: the adapter's own imports neither CrewAI nor another framework."""

from __future__ import annotations

import subprocess
import sys

import pytest


LOADED = (
    "import sys, ce_integrations.crewai; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
)
OTHERS = {"crewai", "langchain_core", "llama_index", "autogen_core", "haystack", "semantic_kernel"}


@pytest.mark.req("A-22")
def test_the_adapter_imports_no_framework() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60
    )
    assert not OTHERS & set(done.stdout.split())
