"""The page on CrewAI cannot lie, either: its Python runs."""

from __future__ import annotations

import pytest

from tests.meta.test_readme import APART
from tests.meta.test_readme import test_python_blocks_run as run_blocks


def test_python_blocks_of_its_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run_blocks(APART, monkeypatch)
