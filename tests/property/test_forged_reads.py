"""Nobody reads another's session through any door, and each try is told of (B-03, B-05)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.property.forged_reads_run import run


@pytest.mark.req("B-03", "B-05")
def test_no_forged_read_finds_anything(tmp_path: Path) -> None:
    stores = ["memory", f"file://{tmp_path}/files", f"sqlite:///{tmp_path}/ce.db"]
    ended, faults = run(600, 5, stores)
    assert faults == []
    assert sum(ended.values()) >= 600
    assert ended["CONTEXT_SCOPE_VIOLATION"] > 20
