"""Each use of a `ce` command is a record, by the operating system's user (B-05)."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from ce_engine import create_context_engine
from ce_engine.apps.cli.app import COMMANDS
from ce_engine.apps.cli.audited import ACTIONS
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import TALK, ce, url_of


UNTOLD = {
    "demo": "its own store",
    "doctor": "no session",
    "schema": "no store",
    "migrate": "a document",
    "ui": "each of its looks is told of by itself",
}


def test_every_command_is_told_of_or_touches_nobodys_session() -> None:
    assert {name.partition(" ")[0] for name in ACTIONS} | set(UNTOLD) == set(COMMANDS)


@pytest.mark.req("B-05")
def test_who_looked_at_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, log = url_of(tmp_path / "ce.db"), tmp_path / "audit.jsonl"
    engine = create_context_engine(url)
    HostApp(engine, TALK).ask("Where is the invoice?", "In the blue folder.")
    engine.sync.close()
    monkeypatch.setenv("CE_AUDIT_LOG", str(log))
    place = ("--store", url, "--account", TALK.account_id)
    for words in (
        ("sessions",),
        ("show", TALK.session_id),
        ("inspect", TALK.session_id, "and now?"),
        ("show", "forged"),
        ("constraints", "list", "--user", TALK.user_id),
        ("delete", "--session", TALK.session_id, "--yes"),
    ):
        ce(*words, *place)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line["actor"] for line in told} == {getpass.getuser()}
    assert {line["account_id"] for line in told} == {TALK.account_id}
    assert [
        (line["event_type"], line["event"], line["session_id"], line["status"]) for line in told
    ] == [
        ("ce sessions", "list", "*", "ok"),
        ("ce show", "read", TALK.session_id, "ok"),
        ("ce inspect", "inspect", TALK.session_id, "ok"),
        ("ce show", "read", "forged", "not_found"),
        ("ce constraints list", "read", "*", "ok"),
        ("ce delete", "delete", TALK.session_id, "ok"),
    ]
    assert "blue folder" not in log.read_text()
