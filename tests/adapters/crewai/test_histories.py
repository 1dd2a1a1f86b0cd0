"""Random tool histories through the CrewAI adapter; `tool_histories_run.py --framework crewai` runs thousands of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.property.tool_crewai import Case, Rig


CASES = 60


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig() as made:
        yield made


@pytest.mark.req("A-10", "A-11", "A-12")
@pytest.mark.parametrize("block", range(4))
def test_every_property_holds(rig: Rig, block: int) -> None:
    for seed in range(block * CASES // 4, (block + 1) * CASES // 4):
        assert Case.of(seed, rig).run()
