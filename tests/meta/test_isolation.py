"""The net under all other tests: our faults raise, and nothing is written into the tree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def test_a_fault_of_ours_raises() -> None:
    assert os.environ["CE_GUARD"] == "raise"


@pytest.mark.production_guard
def test_the_guard_of_production_on_request() -> None:
    assert "CE_GUARD" not in os.environ


def test_what_a_test_writes_stays_with_it(tmp_path: Path) -> None:
    assert Path.cwd() == tmp_path
    assert tmp_path in Path(os.environ["XDG_CACHE_HOME"]).parents


def test_settings_of_the_developer_do_not_count() -> None:
    foreign = ("OPENAI_", "LANGSMITH_", "LANGCHAIN_", "CE_STORE_URL", "CE_SECRET")
    assert [name for name in os.environ if name.startswith(foreign)] == []
