"""Each use of a `ce` command is a record, by the operating system's user (B-05)."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from ce_engine import create_context_engine
from ce_engine.apps.cli.app import COMMANDS, app
from ce_engine.apps.cli.audited import ACTIONS
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import TALK, ce, url_of


UNTOLD = {
    "demo": "its own store",
    "schema": "no store",
    "migrate": "a document",
    "ui": "each of its looks is told of by itself",
}


def commands() -> set[str]:
    """All that can be asked for, the parts of a group by themselves."""
    whole: Any = get_command(app)
    found = set[str]()
    for name in COMMANDS:
        parts = getattr(whole.get_command(None, name), "commands", ())
        found |= {f"{name} {part}" for part in parts} or {name}
    return found


def test_every_command_is_told_of_or_touches_nobodys_session() -> None:
    told = {name for name in commands() if name.partition(" ")[0] not in UNTOLD}
    assert told == set(ACTIONS)


@pytest.mark.req("B-05")
def test_who_looks_whether_a_store_works_opens_it_and_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "audit.jsonl"
    monkeypatch.setenv("CE_AUDIT_LOG", str(log))
    ce("doctor", "--store", url_of(tmp_path / "ce.db"))
    (told,) = map(json.loads, log.read_text().splitlines())
    assert (told["event_type"], told["event"], told["actor"]) == (
        "ce doctor",
        "verify",
        getpass.getuser(),
    )


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
        ("constraints", "accept", "none-such", "--yes", "--digest", "x", "--user", TALK.user_id),
        ("constraints", "accept", "--none", "--yes", "--user", TALK.user_id),
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
        ("ce constraints accept", "change", "*", "error"),
        ("ce constraints accept", "change", "*", "error"),
        ("ce delete", "delete", TALK.session_id, "ok"),
    ]
    assert "blue folder" not in log.read_text()
