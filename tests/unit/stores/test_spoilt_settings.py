"""Settings of one user that cannot be read: they are named, hide nobody else's, and go when they are deleted."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine import (
    ContextEngine,
    FileDamagedError,
    MigrationError,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.stores.documents.redis.server_url import place_of
from ce_engine.stores.encryption import VARIABLE
from ce_engine.stores.urls import folder_path
from ce_engine.testing.host import HostApp
from tests.hosts import redis_host
from tests.hosts.cli_host import ce
from tests.hosts.store_urls import store_url
from tests.unit.stores.test_sealed_stores import KEY


pytestmark = pytest.mark.req("B-01", "B-08")
ANNA = Scope(session_id="s", account_id="a", user_id="anna")
BEN = Scope(session_id="s", account_id="a", user_id="ben")
RULE, WORD = "只说中文", "canary"
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))
NEWER = json.dumps({"format": 9, "account_id": "a", "user_id": "anna", "settings": []})
SPOILT = {
    "no json": "{" + WORD,
    "nothing": "",
    "another's": json.dumps({"format": 2, "account_id": "a", "user_id": "ben", "settings": []}),
    "no list": '{"format": 2, "account_id": "a", "user_id": "anna", "settings": 1}',
}


def opened(url: str) -> ContextEngine:
    return create_context_engine(url, config=PATIENT)


@pytest.fixture(params=["file", "redis"])
def url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A store where two users have a talk and a rule."""
    with store_url(request.param, tmp_path, monkeypatch) as made:
        fill(made)
        yield made


def fill(url: str) -> None:
    engine = opened(url)
    for scope in (ANNA, BEN):
        HostApp(engine, scope).ask("What is it?", "A lamp.")
        engine.sync.constraints.create(scope, RULE)
    engine.sync.close()


def file_of(url: str) -> Path:
    """The file of anna's settings."""
    (found,) = folder_path(url).glob("*/anna-*/settings.json")
    return found


def spoil(url: str, text: str) -> None:
    """Put a text in the place of anna's settings."""
    if url.startswith("file"):
        file_of(url).write_text(text, encoding="utf-8")
        return
    with redis_host.client_of(url) as client:
        key = place_of(url).owner(("a", "anna"))
        client.lset(key, 1, text)
        client.lset(key, 0, "0123456789abcdef")  # so that nobody takes it for what was read


@pytest.mark.parametrize("text", [*SPOILT.values(), NEWER], ids=[*SPOILT, "newer"])
def test_others_settings_are_verified_and_exported(url: str, text: str) -> None:
    spoil(url, text)
    engine = opened(url)
    found = {each.user_id: each.status for each in engine.sync.verify_settings("a", "ben")}
    assert found == {"ben": "intact"}
    statuses = [each.status for each in engine.sync.verify_settings()]
    assert sorted(statuses) == ["intact", "tampered"]
    [setting] = engine.sync.export_user_data("a", "ben").settings
    assert RULE in str(setting.value)
    engine.sync.close()


@pytest.mark.parametrize("text", [*SPOILT.values(), NEWER], ids=[*SPOILT, "newer"])
def test_they_are_named_to_who_asks_for_this_user(url: str, text: str) -> None:
    spoil(url, text)
    engine = opened(url)
    [found] = engine.sync.verify_settings("a", "anna")
    assert (found.account_id, found.user_id, found.status) == ("a", "anna", "tampered")
    [found] = engine.sync.verify_settings(user_id="anna")
    assert (found.user_id, found.status) == ("anna", "tampered")
    with pytest.raises(FileDamagedError):
        engine.sync.export_user_data("a", "anna")
    engine.sync.close()


def test_the_command_line_names_them_once(url: str) -> None:
    spoil(url, SPOILT["no json"])
    for more in ((), ("--user", "anna"), ("--account", "a", "--user", "anna")):
        done = ce("verify", "--store", url, *more)
        assert done.exit_code == 1, more
        assert done.stdout.replace("\n", " ").count("damaged") == 1, more
    assert ce("verify", "--store", url, "--user", "ben").exit_code == 0


def test_a_copy_has_the_others_and_names_them(url: str, tmp_path: Path) -> None:
    spoil(url, SPOILT["no json"])
    target = f"sqlite:///{tmp_path / 'copy.db'}"
    done = ce("copy", url, target)
    assert done.exit_code == 1
    assert "damaged" in done.output
    engine = opened(target)
    assert [rule.text for rule in engine.sync.constraints.list(BEN)] == [RULE]
    engine.sync.close()


@pytest.mark.parametrize("what", SPOILT)
def test_they_go_with_their_user_and_can_be_set_anew(url: str, what: str) -> None:
    spoil(url, SPOILT[what])
    engine = opened(url)
    deleted = engine.sync.delete_user_data("a", "anna")
    assert (deleted.sessions, deleted.settings) == (1, 1)
    assert {e.status for e in engine.sync.verify_settings()} == {"intact"}
    assert engine.sync.export_user_data("a", "anna").settings == []
    assert engine.sync.delete_user_data("a", "anna").settings == 0
    engine.sync.constraints.create(ANNA, RULE)
    assert [rule.text for rule in engine.sync.constraints.list(BEN)] == [RULE]
    engine.sync.close()
    if url.startswith("file"):
        left = b"".join(p.read_bytes() for p in folder_path(url).rglob("*") if p.is_file())
        assert WORD.encode() not in left


def test_what_a_newer_release_wrote_stays_and_the_rest_of_the_user_goes(url: str) -> None:
    spoil(url, NEWER)
    engine = opened(url)
    with pytest.raises(MigrationError, match="format 9"):
        engine.sync.delete_user_data("a", "anna")
    assert engine.sync.list_sessions(account_id="a", user_id="anna") == []
    engine.sync.close()


def test_others_settings_are_sealed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"file:{tmp_path / 'sessions'}"
    fill(url)
    spoil(url, SPOILT["no json"])
    monkeypatch.setenv(VARIABLE, KEY)
    done = ce("rotate-key", "--store", url)
    assert done.exit_code == 1
    assert "settings.json" in done.stderr.replace("\n", "")
    [other] = folder_path(url).glob("*/ben-*/settings.json")
    assert RULE not in other.read_text(encoding="utf-8")


def _link(file: Path) -> None:
    elsewhere = file.with_name("elsewhere")
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


def _loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


def _dangling(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.with_name("nowhere"))


@pytest.mark.parametrize("put", [_link, _loop, _dangling])
def test_a_link_in_their_place_is_named_and_not_followed(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    url = f"file:{tmp_path / 'sessions'}"
    fill(url)
    file = file_of(url)
    put(file)
    engine = opened(url)
    found = {each.user_id: each for each in engine.sync.verify_settings()}
    assert found["ben"].status == "intact"
    [wrong] = [each for each in found.values() if each.status == "tampered"]
    assert "symbolic link" in str(wrong.wrong)
    assert engine.sync.delete_user_data("a", "anna").settings == 1
    assert not file.is_symlink()
    assert [each.status for each in engine.sync.verify_settings()] == ["intact"]
    engine.sync.close()
    if put is _link:
        assert file.with_name("elsewhere").exists()


@pytest.mark.parametrize("column", ["version", "macs"])
def test_a_column_that_has_anything_in_it_hides_nobody_elses(column: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    fill(url)
    with closing(sqlite3.connect(tmp_path / "ce.db")) as database, database:
        database.execute(f"UPDATE ce_settings SET {column} = 'abc' WHERE user_id = 'anna'")
    engine = opened(url)
    found = {each.user_id: each.status for each in engine.sync.verify_settings()}
    assert found == {"anna": "tampered", "ben": "intact"}
    engine.sync.close()
