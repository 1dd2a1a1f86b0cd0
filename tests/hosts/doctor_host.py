"""`ce doctor` for its tests, and distributions as the import system finds them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hosts.cli_host import ce


@dataclass
class Report:
    exit_code: int
    checks: dict[str, dict[str, str]]

    def __getitem__(self, name: str) -> tuple[str, str, str]:
        found = self.checks[name]
        return found["status"], found["detail"], found["cure"]


def doctor(*args: str) -> Report:
    result = ce("doctor", "--json", *args)
    found = json.loads(result.stdout)
    assert all(set(check) == {"check", "status", "detail", "cure"} for check in found)
    assert all(check["cure"] for check in found if check["status"] != "OK")
    assert result.exit_code == int(any(check["status"] == "FAIL" for check in found))
    return Report(result.exit_code, {check["check"]: check for check in found})


def distribution(folder: Path, name: str, *metadata: str, entry_points: str = "") -> None:
    """An installed distribution, as the import system finds it in `folder`."""
    info = folder / f"{name.replace('-', '_')}-{metadata[0]}.dist-info"
    info.mkdir()
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {metadata[0]}", *metadata[1:]]
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if entry_points:
        (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed distributions beside the real ones."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.endswith("_ce")]:
        sys.modules.pop(name)


def adapter(site: Path, name: str, body: str, *metadata: str) -> None:
    """An adapter as a stranger ships one."""
    (site / f"{name}_ce.py").write_text(body, encoding="utf-8")
    points = f"[ce_integrations.adapters]\n{name} = {name}_ce:ADAPTER\n"
    distribution(site, f"{name}-ce", "1.0", *metadata, entry_points=points)


def requiring(*requires: str) -> str:
    return f"class ADAPTER:\n    requires = {requires!r}\n"
