"""What holds of the examples of every framework: run with and without us, they send and print the same."""

from __future__ import annotations

import asyncio
import difflib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from ce_engine import Scope, SessionDocument, open_store
from ce_engine.schema.rows import SessionInfo
from ce_integrations.testing.answers import Answer, Script, text, tool_calls
from ce_integrations.testing.wire import Wire


@dataclass(frozen=True)
class Example:
    """A folder of `examples`: what its model says, and the session that it leaves."""

    name: str
    script: Script
    session_id: str
    messages: int
    needs: tuple[str, ...] = ()
    """What a release must have to run it."""
    is_forgetful: bool = False
    """It keeps no history of its own, and gets one."""


BOTH = """
import os, runpy, sys
folder, endpoint, *wires = sys.argv[1:]
sys.path[0], sys.argv[1:] = folder, []
for app, wire in zip(("app.py", "app_ce.py"), wires, strict=True):
    os.environ[endpoint] = wire
    runpy.run_path(os.path.join(folder, app), run_name="__main__")
    print("=" * 9, flush=True)
"""
"""Runs an example without us and then with us in one process: it is the framework's import that takes its time."""


class ExampleTests:
    """A framework names its examples."""

    framework: ClassVar[str]
    examples: ClassVar[Sequence[Example]]
    endpoint: ClassVar[str] = "OPENAI_BASE_URL"
    """The variable that names the model's endpoint."""
    options: ClassVar[Sequence[str]] = ()
    """Of the interpreter."""
    noise: ClassVar[Sequence[str]] = ()
    """What the framework itself logs, with us and without."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "name" in metafunc.fixturenames:
            metafunc.parametrize("name", [each.name for each in self.examples])
        if "example" in metafunc.fixturenames:
            given = [
                pytest.param(each, marks=[pytest.mark.needs(*each.needs)], id=each.name)
                for each in self.examples
            ]
            metafunc.parametrize("example", given)

    @property
    def folder(self) -> Path:
        return Path(__file__).parents[2] / "examples" / self.framework

    def run(self, name: str, plain: Wire, ours: Wire) -> tuple[str, str]:
        """Run an example as a user does, and as one who has us; gives what each printed."""
        endpoints = self.endpoint, plain.base_url, ours.base_url
        done = subprocess.run(
            [sys.executable, *self.options, "-c", BOTH, str(self.folder / name), *endpoints],
            env={**os.environ, "OPENAI_API_KEY": "no key"},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        # A machine under load may need more than the 250 ms that an app waits for its store.
        noise = ("no answer within", *self.noise)
        lines = done.stderr.splitlines()
        said = [line for line in lines if not any(each in line for each in noise)]
        assert said == []
        first, second, _ = done.stdout.split("=" * 9 + "\n")
        return first, second

    def judge(self, name: str, document: SessionDocument) -> None:
        """What else is in the session."""

    def test_the_examples_differ_by_the_lines_that_install_us(self, name: str) -> None:
        folder = self.folder / name
        plain, ours = ((folder / app).read_text("utf-8") for app in ("app.py", "app_ce.py"))
        lines = difflib.ndiff(plain.splitlines(), ours.splitlines())
        changed = [line for line in lines if line[0] in "+-" and line[1:].strip()]
        assert [line[0] for line in changed] == ["+", "+"]
        assert changed[0] == f"+ from ce_integrations.{self.framework} import install_ce"
        assert changed[1].startswith("+     install_ce(")

    @pytest.mark.req("A-24")
    def test_the_examples_send_the_same(self, example: Example) -> None:
        with Wire(example.script) as alone, Wire(example.script) as governed:
            printed, printed_with_us = self.run(example.name, alone, governed)
            assert governed.refusals == []
            plain, ours = ([sent.raw for sent in wire.requests] for wire in (alone, governed))
        assert printed.strip()
        assert printed_with_us == printed
        assert ours[0] == plain[0]
        assert len(ours) == len(plain)
        if not example.is_forgetful:
            assert ours == plain
        assert Path("ce.db").exists()
        info, document = asyncio.run(self._stored())
        assert (info.session_id, info.messages) == (example.session_id, example.messages)
        assert len(document.session.messages) == example.messages
        assert info.evidences == len(document.evidences) > 0
        self.judge(example.name, document)

    async def _stored(self) -> tuple[SessionInfo, SessionDocument]:
        """The only session."""
        store = open_store("sqlite:///ce.db")
        try:
            (info,) = await store.list_sessions()
            found = await store.get_session(Scope(session_id=info.session_id))
        finally:
            await store.close()
        assert found is not None
        return info, found

    def test_each_folder_is_an_example_that_is_run_and_told_of(self) -> None:
        page = (self.folder / "README.md").read_text("utf-8")
        folders = {path.name for path in self.folder.iterdir() if path.is_dir()}
        assert folders - {"__pycache__"} == {each.name for each in self.examples}
        assert all(f"| [{each.name}]({each.name}) |" in page for each in self.examples)


def agent_script(second: str) -> list[Answer]:
    """The script of an agent that asks for a version, and then for the summary of `second`."""
    return [
        tool_calls([("version_of", {"distribution": "pydantic"})]),
        text("It is there."),
        tool_calls([("summary_of", {"distribution": second})]),
        text("And so is that."),
    ]
