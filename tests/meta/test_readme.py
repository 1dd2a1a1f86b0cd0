"""The documents cannot lie: their Python runs, and their commands are the ones that CI runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ce_integrations.testing.wire import Wire
from tests.meta.pages import ROOT, blocks


DOCS = [str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")]
APART = "docs/crewai.md"
"""CrewAI is in an environment of its own: `tests/adapters/crewai/test_page.py` runs its page."""
PAGES = sorted({"README.md", "CONTRIBUTING.md", *DOCS} - {APART})
DEMO_COMMAND = 'python -m pip install ".[demo]" && ce demo'
TEST_COMMAND = "python -m pip install tox tox-uv && tox"


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of a page one after the other, in an empty folder, over a loopback model."""
    for distribution in (ROOT / "tests" / "makebelieve").iterdir():
        monkeypatch.syspath_prepend(distribution)
    namespace: dict[str, object] = {"__name__": "__main__"}
    with Wire() as wire:
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):  # the second is LlamaIndex's
            monkeypatch.setenv(name, wire.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        for block in blocks(page, "python"):
            exec(compile(block, ROOT / page, "exec"), namespace)
        assert wire.refusals == []


def test_the_readme_shows_how_it_is_used() -> None:
    assert any("install_ce(" in block for block in blocks("README.md", "python"))


def test_the_readme_has_the_two_commands() -> None:
    commands = {
        line.strip() for block in blocks("README.md", "bash") for line in block.splitlines()
    }
    assert {DEMO_COMMAND, TEST_COMMAND} <= commands


def test_ci_runs_the_command_of_the_readme() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert TEST_COMMAND in [line.strip() for line in lines]


def test_the_suites_of_the_components_page_find_their_fixtures(tmp_path: Path) -> None:
    *setup, suites = blocks("docs/components.md", "python")
    file = tmp_path / "test_mine.py"
    file.write_text("\n".join([*setup, suites]), encoding="utf-8")
    options = [
        "-q",
        "-o",
        "anyio_mode=auto",
        "-p",
        "no:cacheprovider",
        "-k",
        "Pruner or Summarizer or tasks",
    ]
    command = [sys.executable, "-m", "pytest", *options, str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d{2,} passed", done.stdout)
