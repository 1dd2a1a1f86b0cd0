"""In a small budget nothing goes out over it but what is told; `tight_run.py` runs thousands of apps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.property import room_run, tight_cases
from tests.property.test_room import APART


CASES = 24
"""Of each framework."""


@pytest.fixture(scope="module", params=sorted(room_run.CASES.keys() - APART))
def module(request: pytest.FixtureRequest) -> Any:
    return import_module(room_run.CASES[request.param])


@pytest.fixture(scope="module")
def rig(module: Any) -> Iterator[Any]:
    with module.Rig() as rig:
        yield rig


@pytest.mark.req("A-10", "A-23")
@pytest.mark.parametrize("block", range(4))
def test_nothing_goes_out_over_the_budget_but_what_is_told(
    module: Any, rig: Any, block: int
) -> None:
    counts: Counter[str] = Counter()
    for seed in range(block * CASES // 4, (block + 1) * CASES // 4):
        counts += tight_cases.run(module.Case.of(seed, rig))
    assert counts["over"] <= counts["told"]
    assert counts["over"] < counts["requests"]


def test_the_judge_finds_what_is_not_told(
    module: Any, rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tight_cases, "turns_of", lambda engine, store: [])
    with pytest.raises(AssertionError, match=r"over .*, told: "):
        _ = [tight_cases.run(module.Case.of(seed, rig)) for seed in range(10)]
