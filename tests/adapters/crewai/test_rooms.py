"""Random apps of CrewAI, with room to spare and without; `room_run.py` and `tight_run.py` run thousands of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.property import tight_cases
from tests.property.room_crewai import Case, Rig


CASES = 40


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig() as made:
        yield made


@pytest.mark.req("A-23")
@pytest.mark.parametrize("block", range(4))
def test_with_room_and_unasked_the_bytes_are_the_app_s(rig: Rig, block: int) -> None:
    for seed in range(block * CASES // 4, (block + 1) * CASES // 4):
        assert Case.of(seed, rig).run()


@pytest.mark.req("A-10", "A-23")
@pytest.mark.parametrize("block", range(4))
def test_nothing_goes_out_over_the_budget_but_what_is_told(rig: Rig, block: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(block * CASES // 4, (block + 1) * CASES // 4):
        counts += tight_cases.run(Case.of(seed, rig))
    assert counts["over"] <= counts["told"]
    assert counts["over"] < counts["requests"]
