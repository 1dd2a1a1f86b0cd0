"""Random histories of tools in all budgets: pairs are whole, several results in a message or one."""

from __future__ import annotations

import pytest

from tests.adapters.pairs import PairTests


@pytest.mark.scenario(2)
class TestPairs(PairTests):
    cases = "tests.property.tool_haystack"
