"""Random histories of tools in all budgets: pairs are whole, also where several results are one message."""

from __future__ import annotations

import pytest

from ce_integrations.autogen.installer import AutoGenAdapter
from tests.adapters.pairs import PairTests


def splits_no_results(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AutoGenAdapter, "split", lambda _, native: (native,))


def joins_all_but_one(patch: pytest.MonkeyPatch) -> None:
    join = AutoGenAdapter.join
    patch.setattr(AutoGenAdapter, "join", lambda self, native, parts: join(self, native, parts[1:]))


@pytest.mark.scenario(2)
class TestPairs(PairTests):
    cases = "tests.property.tool_autogen"
    faults = (splits_no_results, joins_all_but_one, *PairTests.faults)
