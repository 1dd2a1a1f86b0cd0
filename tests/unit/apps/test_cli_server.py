"""`ce` over a Redis server: the same commands, and what `ce doctor` says of it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ce_engine import (
    ConfigError,
    RedactionConfig,
    RuntimeConfig,
    StoreConfig,
    create_context_engine,
)
from tests.hosts import redis_host
from tests.hosts.cli_host import TALK, ce, talk
from tests.hosts.doctor_host import doctor


SECRET = "a secret of tests that is long enough"


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CE_SECRET", SECRET)
    made = redis_host.fresh_url()
    yield made
    redis_host.forget(made)


@pytest.fixture
def at(url: str) -> tuple[str, ...]:
    """The options of a store that an app has talked over."""
    config = RuntimeConfig(store=StoreConfig(deadline_s=30))
    engine = create_context_engine(url, config=config)
    talk(engine)
    engine.sync.close()
    return ("--store", url)


def of_talk() -> tuple[str, ...]:
    return (TALK.session_id, "--account", TALK.account_id, "--user", TALK.user_id)


@pytest.mark.req("A-07")
def test_sessions_are_listed_shown_verified_and_deleted(at: tuple[str, ...]) -> None:
    account = ("--account", TALK.account_id)
    listed = json.loads(ce("sessions", *at, *account, "--user", TALK.user_id, "--json").stdout)
    assert [each["session_id"] for each in listed] == [TALK.session_id]
    shown = ce("show", *at, *of_talk())
    assert shown.exit_code == 0
    verified = ce("verify", *at, *of_talk())
    assert verified.exit_code == 0, verified.output
    deleted = ce("delete", *at, "--session", *of_talk(), "--yes")
    assert deleted.exit_code == 0, deleted.output
    assert ce("show", *at, *of_talk()).exit_code == 1


def test_verify_wants_the_secret(at: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CE_SECRET")
    done = ce("verify", *at, *of_talk())
    assert done.exit_code == 1
    assert "CE_SECRET" in done.output


def test_doctor_tries_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", SECRET)
    server = redis_host.own_server(tmp_path, "--appendonly", "yes")
    try:
        found = doctor("--store", server.url)
        monkeypatch.delenv("CE_SECRET")
        status, detail, cure = doctor("--store", server.url)["secret"]
    finally:
        server.kill()
    assert found["store"][:2] == ("OK", f"{server.url}: answers and takes keys")
    assert found["secret"][0] == "OK"
    assert (status, "CE_SECRET is not set" in detail) == ("FAIL", True)
    assert "openssl rand" in cure


def test_doctor_says_what_the_server_may_lose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CE_SECRET", SECRET)
    server = redis_host.own_server(tmp_path, "--maxmemory-policy", "allkeys-lru")
    try:
        result = ce("doctor", "--json", "--store", server.url)
    finally:
        server.kill()
    found = [each for each in json.loads(result.stdout) if each["check"] == "store"]
    assert [each["status"] for each in found] == ["WARN", "WARN"]
    assert "append-only log is off" in found[0]["detail"]
    assert "allkeys-lru" in found[1]["detail"]
    assert found[0]["cure"].startswith("Set appendonly yes")


def test_doctor_names_a_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", SECRET)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = doctor("--store", f"redis://:pass-word@127.0.0.1:{port}/0")
    assert found["store"][0] == "FAIL"
    assert "cannot be reached" in " ".join(found["store"])
    assert "pass-word" not in str(found.checks)


def test_originals_have_a_place_of_their_own(url: str) -> None:
    same = url.replace("redis://", "redis://me:pass-word@")
    config = RuntimeConfig(redaction=RedactionConfig(mode="dual_store", originals_url=same))
    with pytest.raises(ConfigError, match="very store") as told:
        create_context_engine(url, config=config)
    assert "pass-word" not in str(told.value)
    other = RedactionConfig(mode="dual_store", originals_url=f"{url}.originals")
    engine = create_context_engine(url, config=RuntimeConfig(redaction=other))
    talk(engine)
    engine.sync.close()
    redis_host.forget(f"{url}.originals")
