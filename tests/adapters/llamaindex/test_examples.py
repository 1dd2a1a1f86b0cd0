"""The examples run, with and without us, and differ by the lines that install us."""

from __future__ import annotations

import asyncio
import difflib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ce_engine import open_store
from ce_engine.schema.rows import SessionInfo
from ce_integrations.testing.wire import Wire, text, tool_calls


EXAMPLES = Path(__file__).parents[3] / "examples" / "llamaindex"
SCRIPTS: dict[str, Any] = {
    "chat": "From the documents.",
    "agent": [
        tool_calls([("version_of", {"distribution": "pydantic"})]),
        text("It is there."),
        tool_calls([("summary_of", {"distribution": "openai"})]),
        text("And so is that."),
    ],
}


def run(app: str, wire: Wire) -> str:
    """Run an example as a user does."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLES / app)],
        env={**os.environ, "OPENAI_API_BASE": wire.base_url, "OPENAI_API_KEY": "no key"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    # A machine under load may need more than the 250 ms that an app waits for its store.
    said = [line for line in done.stderr.splitlines() if "unavailable (too slow)" not in line]
    assert said == []
    return done.stdout


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_the_examples_differ_by_the_lines_that_install_us(name: str) -> None:
    plain, ours = ((EXAMPLES / name / app).read_text("utf-8") for app in ("app.py", "app_ce.py"))
    lines = difflib.ndiff(plain.splitlines(), ours.splitlines())
    changed = [line for line in lines if line[0] in "+-" and line[1:].strip()]
    assert [line[0] for line in changed] == ["+", "+"]
    assert changed[0] == "+ from ce_integrations.llamaindex import install_ce"
    assert changed[1].startswith("+     install_ce(")


@pytest.mark.req("A-24")
@pytest.mark.needs("agents_that_remember")
@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_the_examples_send_the_same(name: str) -> None:
    with Wire(SCRIPTS[name]) as wire:
        printed = run(f"{name}/app.py", wire)
        plain = wire.bodies
    with Wire(SCRIPTS[name]) as wire:
        assert run(f"{name}/app_ce.py", wire) == printed
        assert wire.bodies == plain
        assert wire.refusals == []
    assert printed.strip()

    async def sessions() -> list[SessionInfo]:
        store = open_store("sqlite:///ce.db")
        try:
            return await store.list_sessions()
        finally:
            await store.close()

    (session,) = asyncio.run(sessions())
    assert session.session_id == {"chat": "reader-1", "agent": "distributions"}[name]
    assert session.messages == {"chat": 4, "agent": 8}[name]
    assert session.evidences > 0


def test_each_folder_is_an_example_that_is_run_and_told_of() -> None:
    page = (EXAMPLES / "README.md").read_text("utf-8")
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(SCRIPTS)
    assert all(f"| [{name}]({name}) |" in page for name in SCRIPTS)
