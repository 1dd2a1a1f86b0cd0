"""The report is what went out, whatever pruner, layers and budget; `report_run.py` makes thousands of calls (A-11, A-13)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ce_engine.prepare import pipeline
from ce_engine.prepare.choose.candidates import Nomination
from ce_engine.prepare.choose.pruner_guard import BlockChooser, BlockFate
from tests.property.report_cases import Case


@pytest.mark.req("A-11", "A-13", "A-17", "D-07")
@pytest.mark.parametrize("block", range(4))
def test_the_report_is_what_went_out(block: int) -> None:
    done: Counter[str] = Counter()
    for seed in range(block * 10, block * 10 + 10):
        done += Case(seed).run()
    assert done["calls"] > 40
    assert done["degraded shorter"]
    assert done["dropped over_budget"]


def whole_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pruner's shortened text is thrown away, as it once was."""
    choose = BlockChooser.choose

    def chosen(self: BlockChooser, *args: Any) -> dict[str, BlockFate]:
        return {name: replace(fate, text=None) for name, fate in choose(self, *args).items()}

    monkeypatch.setattr(BlockChooser, "choose", chosen)


def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates that had no room are not told of."""

    def tell(self: Nomination, pruned: Any, went: Any) -> None:
        self.decisions = [*pruned.values()]

    monkeypatch.setattr(Nomination, "tell", tell)


def miscounting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put in costs nothing."""
    monkeypatch.setattr(pipeline, "FRAMING", -40)


@pytest.mark.parametrize("mutate", [whole_texts, silence, miscounting])
def test_the_judge_finds_a_report_that_is_wrong(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CE_GUARD", "raise")
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        _ = [Case(seed).run() for seed in range(10)]
