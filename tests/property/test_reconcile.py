"""Reconcile holds its ten properties over random hosts that know which message is which.

A fault names its property by number: rows are the distinct logical messages (1, 3, 10), a retry
appends nothing (2), nothing goes out twice (4, 5), caches change no answer (6), lists that are cut,
summarised, edited or branched keep their places (7, 8), and hosts on one log do not disturb each
other (9). The judge is `oracle.py`; many more cases run with `reconcile_run.py`.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.property import reconcile_run
from tests.property.cases import MIXES, Pair, run_case, run_mix
from tests.property.hosts import Mix


SEEDS = 12  # of each mix
CASES = 500  # of any mix


@pytest.mark.parametrize("mix", MIXES, ids=lambda mix: mix.name)
def test_every_property_holds_for_a_mix(mix: Mix | Pair) -> None:
    for seed in range(SEEDS):
        run_mix(mix, Random(seed))


@pytest.mark.parametrize("block", range(5))
def test_every_property_holds_for_any_mix(block: int) -> None:
    for seed in range(block * CASES // 5, (block + 1) * CASES // 5):
        run_case(seed)


def test_the_command_counts_its_cases_by_mix(capsys: pytest.CaptureFixture[str]) -> None:
    assert reconcile_run.main(["--cases", "30", "--seed", "4"]) == 0
    first, *counts = capsys.readouterr().out.splitlines()
    assert first == "seed 4: 30 cases, 0 failed"
    assert sum(int(line.split()[0]) for line in counts) == 30


def test_the_command_fails_and_names_the_case(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(seed: int) -> str:
        assert seed != 20_000_003, "1: a row too many"
        return "plain"

    monkeypatch.setattr(reconcile_run, "run_case", faulty)
    assert reconcile_run.main(["--cases", "5", "--seed", "2"]) == 1
    assert "FAILED --only 20000003: AssertionError: 1: a row too many" in capsys.readouterr().out
    with pytest.raises(AssertionError):
        reconcile_run.main(["--only", "20000003"])
