"""Whatever is called by hand, in whatever order: three stores say the same, and a small model agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.property.by_hand import run_case


@pytest.mark.req("A-13", "A-14", "B-03")
@pytest.mark.parametrize("seed", range(14))
def test_three_stores_and_the_model_agree(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CE_SECRET", "the same for all stores, and long enough")
    assert run_case(seed, tmp_path).total()
