"""One session that cannot be read ends no list of the others: it is named instead (B-03, 19 A)."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from ce_engine import (
    FileDamagedError,
    RetentionConfig,
    RetentionRule,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.stores.documents.file import shelf
from ce_engine.stores.documents.redis.server_url import place_of
from ce_engine.stores.urls import folder_path
from ce_engine.testing.host import HostApp
from tests.hosts import redis_host
from tests.hosts.cli_host import ce
from tests.hosts.doctor_host import doctor
from tests.hosts.store_urls import store_url


PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))
WHOLE = [Scope(session_id=name, user_id="u") for name in ("first", "last")]
SPOILT = Scope(session_id="middle", user_id="u")
OTHERS = Scope(session_id="s", user_id="other")


def fill(url: str) -> None:
    engine = create_context_engine(url, config=PATIENT)
    for scope in (*WHOLE, SPOILT, OTHERS):
        HostApp(engine, scope).ask("你好", "hello")
    engine.sync.close()


def files(root: Path) -> Path:
    (found,) = root.glob("*/u-*/middle-*/session.json")
    return found


def _garbage(root: Path) -> None:
    files(root).write_text("{", encoding="utf-8")


def _newer(root: Path) -> None:
    page = files(root)
    page.write_text(
        json.dumps({**json.loads(page.read_text("utf-8")), "format": 99}), encoding="utf-8"
    )


def _of_another(root: Path) -> None:
    (other,) = root.glob("*/u-*/first-*/session.json")
    files(root).write_bytes(other.read_bytes())


def _link(root: Path) -> None:
    page = files(root)
    page.rename(page.with_name("elsewhere"))
    page.symlink_to("elsewhere")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "no JSON": _garbage,
    "of a newer release": _newer,
    "another session's": _of_another,
    "a link": _link,
}


@pytest.mark.parametrize("what", DAMAGES)
def test_the_others_of_a_folder_are_listed(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, url = tmp_path / "sessions", f"file:{tmp_path / 'sessions'}"
    fill(url)
    DAMAGES[what](root)
    engine = create_context_engine(url, config=PATIENT)
    with caplog.at_level(logging.WARNING, "ce_engine.stores"):
        for _ in range(2):
            listed = engine.sync.list_sessions(user_id=None)
            assert {i.session_id for i in listed} == {"first", "last", "s"}
    (told,) = [r.getMessage() for r in caplog.records if r.name == "ce_engine.stores"]
    assert "middle-" in told
    engine.sync.close()


@pytest.mark.parametrize("name", ["%ff:u:s", ":u:mi%64dle", "%ED%A0:u:s"])
def test_a_key_that_no_session_of_ours_has_is_passed_over(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_url("redis", tmp_path, monkeypatch) as url:
        fill(url)
        place = place_of(url)
        with redis_host.client_of(url) as client:
            for key in (f"{place.sessions}{name}", f"{place.owners}{name.rpartition(':')[0]}"):
                client.set(key.replace(":u", ":%75"), "x")
        done = ce("verify", "--store", url)
        assert done.exit_code == 0, done.output


def test_operators_are_told_of_it(tmp_path: Path) -> None:
    root, url = tmp_path / "sessions", f"file:{tmp_path / 'sessions'}"
    fill(url)
    _garbage(root)
    done = ce("verify", "--store", url)
    assert done.exit_code == 1
    said = " ".join(done.stdout.split())
    assert "session first: intact" in said
    assert "damaged: the session's file" in said
    assert json.loads(ce("verify", "--json", "--store", url).stdout)["damaged"]
    status, detail, cure = doctor("--store", url)["session"]
    assert status == "FAIL"
    assert "middle-" in detail
    assert "backup" in cure


def test_what_promises_all_of_a_user_says_what_it_has_not(tmp_path: Path) -> None:
    root, url = tmp_path / "sessions", f"file:{tmp_path / 'sessions'}"
    fill(url)
    _garbage(root)
    engine = create_context_engine(url, config=PATIENT)
    with pytest.raises(FileDamagedError, match="middle-"):
        engine.sync.export_user_data("", "u")
    with pytest.raises(FileDamagedError, match="middle-"):
        engine.sync.delete_user_data("", "u")
    assert [i.session_id for i in engine.sync.list_sessions(user_id=None)] == ["s"]
    assert engine.sync.delete_user_data("", "other").sessions == 1  # nobody else's is in its way
    engine.sync.close()


def test_the_others_of_a_server_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with store_url("redis", tmp_path, monkeypatch) as url:
        fill(url)
        with redis_host.client_of(url) as client:
            client.lset(place_of(url).session(SPOILT.key), 1, "{")
        engine = create_context_engine(url, config=PATIENT)
        with caplog.at_level(logging.WARNING, "ce_engine.stores"):
            listed = engine.sync.list_sessions(user_id=None)
        assert {i.session_id for i in listed} == {"first", "last", "s"}
        assert "'middle'" in caplog.text
        engine.sync.close()
        done = ce("verify", "--json", "--store", url)
        assert done.exit_code == 1
        found = json.loads(done.stdout)
        assert [each["session_id"] for each in found["sessions"] if each["wrong"]] == ["middle"]
        assert found["damaged"] == []
        assert doctor("--store", url)["session"][0] == "FAIL"


def _put_another_type(url: str, of: str) -> None:
    place = place_of(url)
    key = place.session(SPOILT.key) if of == "session" else place.owner(("", "u"))
    with redis_host.client_of(url) as client:
        client.delete(key)
        client.set(key, "x")


@pytest.mark.parametrize("of", ["session", "owner"])
def test_a_key_of_another_type_takes_no_records_of_others(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_url("redis", tmp_path, monkeypatch) as url:
        fill(url)
        _put_another_type(url, of)
        engine = create_context_engine(url, config=PATIENT)
        HostApp(engine, SPOILT).ask("still?", "the call goes on")
        HostApp(engine, OTHERS).ask("and me?", "recorded")
        engine.sync.flush(20)
        engine.sync.close()
        engine = create_context_engine(url, config=PATIENT)
        document = engine.sync.get_session(OTHERS)
        assert document is not None
        assert [m.content for m in document.session.messages][-2:] == ["and me?", "recorded"]
        engine.sync.close()


@pytest.mark.parametrize("of", ["session", "owner"])
def test_a_key_of_another_type_is_named_and_ends_no_list(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with store_url("redis", tmp_path, monkeypatch) as url:
        fill(url)
        _put_another_type(url, of)
        engine = create_context_engine(url, config=PATIENT)
        with caplog.at_level(logging.WARNING, "ce_engine.stores"):
            listed = {i.session_id for i in engine.sync.list_sessions(user_id=None)}
        engine.sync.close()
        assert listed == {"first", "last", "s"} | ({"middle"} if of == "owner" else set())
        assert ("'middle'" in caplog.text) == (of == "session")
        done = ce("verify", "--json", "--store", url)
        assert done.exit_code == 1
        found = json.loads(done.stdout)
        wrong = [
            each.get("session_id", each["user_id"])
            for each in (*found["sessions"], *found["settings"])
            if "of another type" in str(each["wrong"])
        ]
        assert wrong == (["middle"] if of == "session" else ["u"])
        status, detail, _ = doctor("--store", url)["session"]
        assert status == "FAIL"
        assert "another type" in detail


@pytest.mark.parametrize("kind", ["file", "redis"])
def test_who_asks_for_another_user_is_not_told_of_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_url(kind, tmp_path, monkeypatch) as url:
        fill(url)
        if kind == "file":
            _garbage(folder_path(url))
        else:
            with redis_host.client_of(url) as client:
                client.lset(place_of(url).session(SPOILT.key), 1, "{")
        done = ce("verify", "--json", "--user", "other", "--store", url)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["damaged"] == []
        assert ce("verify", "--account", "nobody's", "--store", url).exit_code == 0
        done = ce("verify", "--user", "u", "--store", url)
        assert done.exit_code == 1
        assert "damaged" in done.stdout


def test_what_was_warned_of_is_remembered_within_bounds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes folders without end fills nobody's memory: the oldest is warned of again."""
    monkeypatch.setattr(shelf, "_WARNINGS", 1)
    root, url = tmp_path / "sessions", f"file:{tmp_path / 'sessions'}"
    fill(url)
    for page in root.glob("*/u-*/*/session.json"):
        page.write_text("{", encoding="utf-8")
    engine = create_context_engine(url, config=PATIENT)
    with caplog.at_level(logging.WARNING, "ce_engine.stores"):
        for _ in range(2):
            engine.sync.list_sessions(user_id=None)
    told = [r.getMessage() for r in caplog.records if r.name == "ce_engine.stores"]
    assert (len(told), len(set(told))) == (6, 3)
    engine.sync.close()


def test_a_spoilt_session_keeps_nobody_else_s_from_a_sweep(tmp_path: Path) -> None:
    """A rule for evidence reads that of every session."""
    url = f"sqlite:///{tmp_path}/ce.db"
    fill(url)
    with closing(sqlite3.connect(tmp_path / "ce.db")) as database, database:
        rows = database.execute(
            "UPDATE ce_evidence SET body = '{' WHERE session = "
            "(SELECT id FROM ce_sessions WHERE user_id = 'other')"
        )
        assert rows.rowcount > 0
    engine = create_context_engine(url, config=PATIENT)
    rules = (
        RetentionRule(kind="session", max_count=0, user_id="u"),
        RetentionRule(kind="evidence", max_age=timedelta(days=30)),
    )
    report = engine.sync.sweep(RetentionConfig(rules=rules))
    engine.sync.close()
    assert report.deleted.sessions == len((*WHOLE, SPOILT))


def test_a_setting_of_an_endless_version_is_named(tmp_path: Path) -> None:
    url = (tmp_path / "ce").as_uri()
    fill(url)
    engine = create_context_engine(url, config=PATIENT)
    engine.sync.constraints.create(SPOILT, "Answer in Chinese.")
    engine.sync.close()
    [settings] = (tmp_path / "ce").glob("*/u-*/settings.json")
    text = settings.read_text("utf-8")
    settings.write_text(re.sub(r'"version": ?\d+', '"version": 1e999', text), "utf-8")
    verified = ce("verify", "--store", url)
    assert isinstance(verified.exception, SystemExit)
    assert "settings" in verified.stdout
    assert "session s: intact" in verified.stdout
    assert ce("export", "--user", "other", "--store", url).exit_code == 0


def test_a_folder_in_the_place_of_a_draft_keeps_nobody_from_being_deleted(tmp_path: Path) -> None:
    url = (tmp_path / "ce").as_uri()
    fill(url)
    [user] = (tmp_path / "ce").glob("*/u-*")
    (user / "settings.json.new").mkdir()
    deletion = ce("delete", "--user", "other", "--yes", "--store", url)
    assert deletion.exit_code == 0, deletion.stderr
    assert "deleted 1 sessions" in deletion.stdout
