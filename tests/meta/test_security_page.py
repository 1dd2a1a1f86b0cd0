"""The page on security names tests that there are, and settings that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ce_engine.schema import environment


ROOT = Path(__file__).parents[2]
PAGES = ("docs/security.md", "docs/retention.md", "docs/telemetry.md", "SECURITY.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_that_hold_a_promise_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/.]+)`", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_variables_are_ours(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert set(re.findall(r"\bCE_[A-Z_]+\b", text)) <= set(environment.KNOWN)


def test_the_page_has_a_test_for_most_of_its_promises() -> None:
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    table = text[text.index("| who | may try to") :].split("\n\n")[0].splitlines()[2:]
    assert len(table) >= 8
    assert sum("`tests/" in line for line in table) >= 5
