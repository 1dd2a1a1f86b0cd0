"""`ce export` writes all of it, or leaves no file (B-08)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ce_engine import Scope, create_context_engine
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import ce, url_of


CUT = "Half of a smile: \ud83d"


def recorded(folder: Path, text: str) -> str:
    url = url_of(folder / "ce.db")
    engine = create_context_engine(url)
    engine.sync.check()
    scope = Scope(session_id="s", user_id="li")
    HostApp(engine, scope).ask("Where is it?", "发票 😀")
    engine.sync.record_event(scope, "planner", {text: [text]})
    engine.sync.close()
    return url


@pytest.mark.req("B-08")
@pytest.mark.parametrize("text", ["Whole: 😀", CUT], ids=["whole", "half a pair"])
def test_whatever_somebody_sent_is_exported(tmp_path: Path, text: str) -> None:
    """Half of a surrogate pair is what an emoji leaves that was cut in the middle."""
    url, file = recorded(tmp_path, text), tmp_path / "li.json"
    done = ce("export", "--user", "li", "--to", str(file), "--store", url)
    assert (done.exit_code, done.stderr) == (0, "")
    [session] = json.loads(file.read_text(encoding="utf-8"))["sessions"]
    said = [message["content"] for message in session["document"]["session"]["messages"]]
    assert said == ["Where is it?", "发票 😀"]
    [event] = [each for each in session["events"] if each["event_type"] == "Recorded"]
    assert event["payload"][text] == [text]
    printed = ce("export", "--user", "li", "--store", url)
    assert json.loads(printed.stdout)["sessions"] == json.loads(file.read_text())["sessions"]


@pytest.mark.req("B-08")
def test_a_file_that_cannot_be_written_whole_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, file = recorded(tmp_path, "Hello?"), tmp_path / "li.json"
    opened = os.fdopen

    def full(*args: Any, **more: Any) -> Any:
        out = opened(*args, **more)
        out.write(b"{")
        out.close()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("ce_engine.apps.present.new_files.os.fdopen", full)
        done = ce("export", "--user", "li", "--to", str(file), "--store", url)
    assert done.exit_code == 1
    assert "cannot be written (No space left" in " ".join(done.stderr.split())
    assert not file.exists()
    assert ce("export", "--user", "li", "--to", str(file), "--store", url).exit_code == 0
