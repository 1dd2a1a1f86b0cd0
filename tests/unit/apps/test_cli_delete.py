"""`ce delete` and `ce verify`: what the operator sees, and what is left."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ce_engine import Scope, create_context_engine
from ce_engine.apps.cli.app import app
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import TALK, ce, fill, url_of


USER = ("--user", TALK.user_id)
SESSION = ("--session", TALK.session_id)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with the talk of a user with a project, and another user's session."""
    path = tmp_path / "ce.db"
    fill(url_of(path))
    engine = create_context_engine(url_of(path))
    engine.sync.check()
    for user, project in (("other", ""), (TALK.user_id, "p")):
        scope = Scope(session_id="two", account_id="acme", user_id=user, project_id=project)
        HostApp(engine, scope).ask("Hello?", "Hi.")
    engine.sync.close()
    return path


@pytest.fixture
def at(path: Path) -> tuple[str, ...]:
    return ("--store", url_of(path), "--account", "acme")


def sessions(at: tuple[str, ...]) -> list[tuple[str, str]]:
    found = json.loads(ce("sessions", "--json", *at).stdout)
    return sorted((info["session_id"], info["user_id"]) for info in found)


def as_json(*args: str) -> dict[str, Any]:
    done = ce(*args, "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.req("A-30")
def test_nothing_goes_without_a_yes(at: tuple[str, ...]) -> None:
    before = sessions(at)
    for which in (SESSION, USER):
        for answer in ("n\n", ""):
            done = CliRunner().invoke(app, ["delete", *which, *at], input=answer)
            assert done.exit_code == 1
            assert "6 messages" in done.stderr or "8 messages" in done.stderr
    assert sessions(at) == before


@pytest.mark.req("A-30")
def test_a_session_goes_and_its_log_says_so(path: Path, at: tuple[str, ...]) -> None:
    intact = re.search(
        r"intact \((\d+) events, \d+ rows\)", ce("verify", TALK.session_id, *at).stdout
    )
    assert intact is not None
    after = int(intact[1]) + 1
    done = CliRunner().invoke(app, ["delete", *SESSION, *at], input="y\n")
    assert "deleted 1 sessions, 6 messages, 4 evidence, 2 tool calls, 3 turns" in done.stdout
    assert b"Rain is water" not in path.read_bytes()
    assert (TALK.session_id, TALK.user_id) not in sessions(at)
    gone = ce("verify", TALK.session_id, *at)
    assert (gone.exit_code, "--user ID" in gone.stderr) == (1, True)
    told = ce("verify", TALK.session_id, *USER, *at)
    assert told.exit_code == 0
    assert f"intact, but for what was deleted ({after} events, 0 rows)" in told.stdout
    assert f"all before event {after} was deleted at 2" in told.stdout
    again = ce("delete", *SESSION, "--yes", *at)
    assert (again.exit_code, "CONTEXT_SESSION_NOT_FOUND" in again.stderr) == (1, True)


@pytest.mark.req("B-08")
def test_a_users_data_go_and_nobody_elses(at: tuple[str, ...]) -> None:
    gone = as_json("delete", *USER, "--yes", *at)
    counts = {"sessions": 2, "messages": 8, "evidences": 5, "tool_calls": 2, "turns": 4}
    assert gone == {**counts, "settings": 0}
    assert sessions(at) == [("two", "other")]
    assert set(as_json("delete", *USER, "--yes", *at).values()) == {0}
    assert as_json("verify", "two", *USER, *at)["status"] == "deleted"
    assert as_json("verify", "two", *at)["status"] == "intact"


@pytest.mark.req("A-30")
def test_evidence_goes_and_what_links_to_it_stays(at: tuple[str, ...]) -> None:
    document = as_json("show", TALK.session_id, *at)
    [name] = [n for n, item in document["evidences"].items() if item["type"] == "rag_doc"]
    messages = document["session"]["messages"]
    [quoting] = [m for m in messages if m["content"] == "Water that falls from clouds."]
    done = as_json("delete", "--evidence", name, *SESSION, "--yes", *at)
    assert done["evidences"] == 1
    assert quoting["message_id"] in done["cleared"]
    after = as_json("show", TALK.session_id, *at)
    assert after["evidences"][name]["content"] == ""
    quoting["content"] = ""
    assert after["session"]["messages"] == messages
    told = as_json("verify", TALK.session_id, *at)
    [part] = told["deleted"]
    assert (told["status"], part["what"], part["evidence_id"]) == ("deleted", "evidence", name)
    assert f"evidence {name} was deleted at" in ce("verify", TALK.session_id, *at).stdout
    unknown = ce("delete", "--evidence", "e9", *SESSION, "--yes", *at)
    assert (unknown.exit_code, "CONTEXT_EVIDENCE_NOT_FOUND" in unknown.stderr) == (1, True)


@pytest.mark.parametrize("args", [(), ("--evidence", "e"), ("--evidence", "e", "--user", "u")])
def test_what_to_delete_must_be_named(at: tuple[str, ...], args: tuple[str, ...]) -> None:
    done = ce("delete", "--yes", *args, *at)
    assert done.exit_code == 2
    assert "--session ID" in done.stderr


@pytest.mark.req("B-01")
def test_a_log_that_was_tampered_with_is_exit_code_1(path: Path, at: tuple[str, ...]) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE ce_events SET payload = '{\"x\":1}' WHERE seq = 2")
    done = ce("verify", TALK.session_id, *at)
    assert done.exit_code == 1
    assert "tampered with: event 2 is not what was recorded" in done.stdout
    done = ce("verify", TALK.session_id, "--json", *at)
    found = json.loads(done.stdout)
    assert (done.exit_code, found["status"], found["tampered_seq"]) == (1, "tampered", 2)
    assert found["session_id"] == TALK.session_id


def two_users(url: str) -> None:
    """One store of two users who say some of the same."""
    engine = create_context_engine(url)
    for user in ("anna", "ben"):
        host = HostApp(engine, Scope(session_id=f"talk-{user}", user_id=user))
        host.ask("What does the lighthouse cost?", "The lighthouse costs two million. 灯塔两百万。")
        host.ask(f"I am {user} and live in the old mill by the river.", f"Noted, dear {user}. " * 9)
    assert engine.sync.flush()
    engine.sync.close()


URLS = ("sqlite:///{}/ce.db", "file://{}/sessions")


@pytest.mark.req("B-08", "A-30")
@pytest.mark.parametrize("form", URLS)
def test_a_deletion_proves_itself(form: str, tmp_path: Path) -> None:
    url = form.format(tmp_path)
    two_users(url)
    done = ce("delete", "--user", "anna", "--yes", "--verify", "--store", url)
    assert done.exit_code == 0, done.stdout
    assert "none is left" in done.stdout
    done = ce("show", "talk-ben", "--store", url, "--full")
    assert "the old mill by the river" in done.stdout


@pytest.mark.req("B-08", "A-30")
@pytest.mark.parametrize("form", URLS)
def test_what_a_deletion_left_is_found_packed_or_plain(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = form.format(tmp_path)
    two_users(url)
    path = tmp_path / ("sessions" if url.startswith("file") else "ce.db")
    if path.is_dir():
        (saved,) = [p for p in path.rglob("session.json") if b"anna" in p.read_bytes()]
        kept = saved.read_bytes()
        (path / "editor.backup").write_bytes(kept)
    else:

        async def purge(*_: object) -> None:
            """Bytes stay where they were."""

        monkeypatch.setattr("ce_engine.stores.tables.store.SqlStore.purge", purge)
    done = ce("delete", "--user", "anna", "--yes", "--verify", "--store", url, "--json")
    assert done.exit_code == 1, done.stdout
    left = json.loads(done.stdout)["search"]["left"]
    assert {Path(each["path"]).parent for each in left} <= {path, path.parent}
    assert all(each["byte"] >= 0 for each in left)
    assert "mill" not in done.stdout


@pytest.mark.req("B-08", "A-30")
def test_evidence_that_is_deleted_is_searched_for_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ce.db"
    fill(url)
    at = ("--store", url, "--account", "acme")
    (first, *_) = as_json("show", TALK.session_id, *at)["evidences"].values()
    args = (*SESSION, "--evidence", first["evidence_id"], "--yes", "--verify")
    done = ce("delete", *args, *at)
    assert done.exit_code == 0, done.stdout
    assert "none is left" in done.stdout


@pytest.mark.req("B-08")
def test_a_servers_bytes_cannot_be_searched_and_nothing_is_deleted() -> None:
    done = ce("delete", "--user", "anna", "--yes", "--verify", "--store", "redis://127.0.0.1:1/0")
    assert done.exit_code == 1
    assert "cannot be searched" in done.stderr
