"""`ce ui`: it serves the page of a store that is there, on this machine, until Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.hosts.cli_host import TALK, ce, fill, url_of


def test_it_prints_an_address_with_a_token_and_serves_it(tmp_path: Path) -> None:
    fill(url := url_of(tmp_path / "ce.db"))
    command = "from ce_engine.apps.cli import main; main()"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked; cp "${{1#file://}}" {tmp_path}/new; mv {tmp_path}/new {tmp_path}/opened\n'
    )
    browser.chmod(0o700)
    args = ["ui", TALK.session_id, "--store", url, "--account", "acme", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", command, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": str(browser)},
    ) as process:
        assert process.stdout is not None
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/session\?\S+", process.stdout.readline())
            assert address is not None
            assert "Ctrl-C" in process.stdout.readline()
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            assert opener.open(address[0]).status == 200
            base = address[0].partition("session?")[0]
            token = address[0].partition("token=")[2]
            assert TALK.session_id in opener.open(base).read().decode("utf-8")
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(base)
            opener.open(f"{base}live/turns")  # a stream that is open does not keep it from ending
            while not (tmp_path / "opened").exists():  # the test's own timeout ends it
                time.sleep(0.05)
        finally:
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert err == ""
    # The browser came there, by way of a file: a command's arguments are seen by all users.
    assert address[0].replace("&", "&amp;") in (tmp_path / "opened").read_text()
    assert token not in (tmp_path / "asked").read_text()


def test_what_it_cannot_serve_is_said_with_the_cure(tmp_path: Path) -> None:
    done = ce("ui", "--store", url_of(tmp_path / "none.db"), "--port", "0", "--no-open")
    assert done.exit_code == 1
    assert "ce demo" in done.stderr
    fill(url := url_of(tmp_path / "ce.db"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = ce("ui", "--store", url, "--port", port, "--no-open")
    assert done.exit_code == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr


def test_without_the_extra_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("ce_engine.apps.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "starlette.requests", None)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    done = ce("ui", "--no-open")
    assert done.exit_code == 1
    assert 'pip install "ce-integrations[ui]"' in done.stderr
    assert "CONTEXT_DEPENDENCY_MISSING" in done.stderr
