"""Random histories of tools in all budgets: pairs are whole, in whichever form a message has its calls."""

from __future__ import annotations

import pytest

from tests.adapters.pairs import PairTests


@pytest.mark.needs("call_blocks")
@pytest.mark.scenario(8)
class TestPairs(PairTests):
    cases = "tests.property.tool_llamaindex"
