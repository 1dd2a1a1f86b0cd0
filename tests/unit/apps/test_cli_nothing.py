"""Where a command finds nothing, it says what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest

from ce_engine import Scope, create_context_engine
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import TALK, ce, fill, url_of


@pytest.fixture(params=["ce.db", "sessions"])
def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A store in which nothing was recorded."""
    made = url_of(tmp_path / str(request.param))
    engine = create_context_engine(made)
    engine.sync.check()
    engine.sync.close()
    return made


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    fill(made := url_of(tmp_path_factory.mktemp("store") / "ce.db"))
    engine = create_context_engine(made)
    engine.sync.check()
    run = HostApp(engine, Scope(session_id="run-7", account_id="runs"))
    run.ask("Hello?", "Hi.", ephemeral=True)
    engine.sync.close()
    return made


def told(*args: str) -> str:
    """All that a command prints, on one line."""
    done = ce(*args)
    assert "Traceback" not in done.output
    return " ".join(done.output.split())


@pytest.mark.parametrize(
    "command",
    [["sessions"], ["show", "s"], ["report", "s"], ["compare"], ["replay", "s"], ["verify"]],
    ids=" ".join,
)
def test_an_empty_store_says_how_it_is_filled(url: str, command: list[str]) -> None:
    said = told(*command, "--store", url)
    assert "nothing is recorded there yet" in said
    assert "`ce demo`" in said
    assert url in said


def test_other_accounts_and_users_are_named(filled: str) -> None:
    at = ("--store", filled)
    assert "accounts 'acme', 'runs' have some there: choose with --account ID" in told(
        "sessions", *at
    )
    assert "account 'acme' has some of this name" in told("show", TALK.session_id, *at)
    assert "accounts 'acme', 'runs' have some" in told("compare", *at)
    users = told("sessions", *at, "--account", "acme", "--user", "王芳")
    assert "user '王芳'" in users
    assert "there are some of '张伟'" in users
    assert "--all lists 1 that are ephemeral" in told("sessions", *at, "--account", "runs")


def test_a_name_that_is_near_is_named(filled: str) -> None:
    at = ("--store", filled, "--account", "acme")
    for near in ("会话-天气", "会话-天气与下雨-2"):
        assert f"Did you mean {TALK.session_id!r}? 1 other is there" in told("report", near, *at)
    assert "Did you mean" not in told("report", "zzz", *at)


def test_a_time_without_calls(filled: str) -> None:
    said = told("compare", "--store", filled, "--account", "acme", "--since", "2999-01-01")
    assert "`ce sessions --all`" in said


@pytest.mark.parametrize("command", [["verify"], ["copy"], ["report", "s"], ["sessions"]])
def test_what_is_wrong_with_a_store_is_told_before_what_is_missing_beside_it(
    command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "letter.db").write_bytes(b"a letter to my sister\n" * 400)
    url = url_of(tmp_path / "letter.db")
    at = [url, url_of(tmp_path / "to.db")] if command == ["copy"] else ["--store", url]
    assert "is no SQLite database" in told(*command, *at)
    assert not (tmp_path / "to.db").exists()


def test_files_that_are_not_there(filled: str) -> None:
    at = ("--store", filled)
    talk = ("report", TALK.session_id, "--account", "acme", *at)
    assert "there is no file 'none.toml'" in told(*talk, "--prices", "none.toml")
    assert "there is no file 'none.json'" in told("import", "none.json", *at)
    assert "`ce backup FILE` makes one" in told("restore", "none.db", *at)


def test_an_export_of_nobody_is_no_silence(filled: str) -> None:
    done = ce("export", "--user", "nobody", "--store", filled)
    assert "nothing of user 'nobody'" in done.stderr
    assert done.stdout.startswith("{")
