"""How far a command is: on a terminal's stderr, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.cli_host import TERMINAL, fill, url_of


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    fill(made := url_of(tmp_path_factory.mktemp("store") / "ce.db"))
    return made


def shown(*args: str) -> tuple[str, str]:
    """The command's stdout, and what its stderr shows, which is a terminal."""
    reader, terminal = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k not in TERMINAL}
    done = subprocess.run(
        [sys.executable, "-c", "from ce_engine.apps.cli import main; main()", *args],
        env={**env, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"},
        check=True,
        stdout=subprocess.PIPE,
        stderr=terminal,
        timeout=60,
    )
    os.close(terminal)
    found = b""
    try:
        while chunk := os.read(reader, 65536):
            found += chunk
    except OSError:  # all of it was read
        pass
    os.close(reader)
    return done.stdout.decode(), found.decode()


COMMANDS = {
    "verify": "verifying",
    "compare": "reading",
    "export": "reading",
    "copy": "copying",
    "backup": "writing the backup",
    "sweep": "looking for what is too old",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_sees_how_far_it_is(command: str, url: str, tmp_path: Path) -> None:
    args = {
        "verify": ["verify", "--store", url],
        "compare": ["compare", "--store", url, "--account", "acme"],
        "export": ["export", "--user", "张伟", "--account", "acme", "--store", url],
        "copy": ["copy", url, url_of(tmp_path / "to.db")],
        "backup": ["backup", str(tmp_path / "b.db"), "--store", url],
        "sweep": ["sweep", "--sessions", "90d", "--store", url],
    }[command]
    printed, seen = shown(*args)
    assert COMMANDS[command] in seen
    assert COMMANDS[command] not in printed
    assert "\x1b" not in printed


def test_json_has_no_bar(url: str) -> None:
    assert shown("verify", "--store", url, "--json")[1] == ""
