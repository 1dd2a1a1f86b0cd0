"""Random histories of functions in all budgets: pairs are whole, whatever class their messages are of."""

from __future__ import annotations

from tests.adapters.pairs import PairTests


class TestPairs(PairTests):
    cases = "tests.property.tool_semantic_kernel"
