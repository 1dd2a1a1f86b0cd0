"""The `ce` command as a whole: sessions, errors, and what is true of every command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from typer.main import get_command

from ce_engine import Scope, create_context_engine
from ce_engine.apps.cli.app import app
from ce_engine.apps.present.output import CONTROL
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import TALK, ce, fill, process, talk, url_of


COMMANDS = (
    ["sessions"],
    ["show", "s"],
    ["report", "s"],
    ["compare"],
    ["doctor"],
    ["demo"],
    ["verify", "s"],
    ["delete"],
)


@pytest.fixture(scope="module", params=["ce.db", "sessions"])
def url(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """A store with a named session of a user, and an ephemeral one."""
    found = url_of(tmp_path_factory.mktemp("store") / str(request.param))
    fill(found)
    engine = create_context_engine(found)
    engine.sync.check()
    run = HostApp(engine, Scope(session_id="run-7", account_id="acme"))
    run.ask("Hello?", "Hi.", ephemeral=True)
    engine.sync.close()
    return found


def test_the_version_is_that_of_the_distribution() -> None:
    assert ce("--version").stdout.strip() == f"ce {version('ce-integrations')}"


def test_help_names_every_command() -> None:
    assert all(command in ce("--help").stdout for command, *_ in COMMANDS)


def helped(command: Any, *path: str) -> Iterator[tuple[str, Any]]:
    """What the help of a command prints, on one line, and what it has to say; of all below it, too."""
    said = [command.help, command.epilog, *(getattr(each, "help", "") for each in command.params)]
    printed = " ".join(ce(*path, "--help", columns=400).stdout.split())
    yield from ((printed, each) for each in said if each)
    for name in getattr(command, "commands", ()):
        yield from helped(command.get_command(None, name), *path, name)


def test_help_prints_what_it_has_to_say() -> None:
    """Nothing of it is taken for markup: `[default: all users]` is no style."""
    told = [*helped(get_command(app))]
    assert len(told) > 60
    for printed, said in told:
        assert " ".join(said.split()) in printed
    shown = " ".join(ce("show", "--help", columns=400).stdout.split())
    assert "[env var: CE_STORE_URL] [default: (sqlite:///ce.db)]" in shown
    assert "[default: (all users)]" in shown
    assert "[[QUESTION]]" not in ce("inspect", "--help").stdout


def test_sessions_are_listed_with_what_is_recorded(url: str) -> None:
    [found] = json.loads(ce("sessions", "--json", "--store", url, "--account", "acme").stdout)
    updated_at = found.pop("updated_at")
    assert found.pop("created_at") <= updated_at
    assert updated_at.endswith("Z")
    assert found == {
        "session_id": TALK.session_id,
        "user_id": TALK.user_id,
        "account_id": TALK.account_id,
        "frameworks": ["by-hand"],
        "messages": 6,
        "tool_calls": 2,
        "evidences": 4,
        "turns": 3,
        "ephemeral": False,
    }


def test_ephemeral_sessions_are_listed_on_request(url: str) -> None:
    at = ("--store", url, "--account", "acme")
    named = json.loads(ce("sessions", "--json", *at).stdout)
    everything = json.loads(ce("sessions", "--json", "--all", *at).stdout)
    assert [info["session_id"] for info in named] == [TALK.session_id]
    assert [(info["session_id"], info["ephemeral"]) for info in everything] == [
        ("run-7", True),
        (TALK.session_id, False),
    ]
    assert "ephemeral" in ce("sessions", "--all", *at).stdout
    assert "run-7" not in ce("sessions", *at).stdout
    assert "Hello?" in ce("show", "run-7", *at).stdout


def test_sessions_of_one_user(url: str) -> None:
    def ids(user: str) -> list[str]:
        at = ("--store", url, "--account", "acme", "--user", user)
        return [
            info["session_id"] for info in json.loads(ce("sessions", "--json", "--all", *at).stdout)
        ]

    assert ids("张伟") == [TALK.session_id]
    assert ids("") == ["run-7"]
    assert ids("nobody") == []


def test_another_account_sees_nothing(url: str) -> None:
    assert json.loads(ce("sessions", "--json", "--store", url).stdout) == []
    assert "no sessions of account ''" in ce("sessions", "--store", url).stdout
    refused = ce("show", TALK.session_id, "--store", url)
    assert refused.exit_code == 1
    assert "CONTEXT_SESSION_NOT_FOUND" in refused.stderr


def test_wide_characters_line_up(url: str) -> None:
    shown = ce("sessions", "--all", "--store", url, "--account", "acme").stdout.splitlines()
    head, *rows = shown
    place = head.index("framework")
    for row in rows:
        before = row[: row.index("by-hand")]
        assert cell_len(before) == place


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_a_narrow_terminal_has_fewer_columns_and_says_which(url: str, columns: int) -> None:
    text = ce("sessions", "--all", "--store", url, "--account", "acme", columns=columns).stdout
    head, *rest = text.splitlines()
    assert max(map(cell_len, text.splitlines())) <= columns
    assert TALK.session_id in text
    assert "updated (UTC)" in head
    assert ("evidence" in head) is (columns == 200)
    assert ("a wider terminal has evidence" in " ".join(rest)) is (columns < 200)


def test_the_environment_names_the_store(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_STORE_URL", url)
    assert len(json.loads(ce("sessions", "--json", "--account", "acme").stdout)) == 1


# Errors


@pytest.mark.parametrize("command", [["sessions"], ["show", "s"], ["report", "s"]])
def test_without_a_store_the_error_says_what_to_do_and_none_is_made(
    command: list[str], tmp_path: Path
) -> None:
    result = ce(*command)
    assert result.exit_code == 1
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("error [CONTEXT_STORE_UNAVAILABLE]: there is no store at")
    assert "ce demo" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("store", "code", "words"),
    [
        ("mongodb://host/db", "CONTEXT_STORE_URL_INVALID", "sqlite:///relative.db"),
        ("ce.db", "CONTEXT_STORE_URL_INVALID", "sqlite:///ce.db"),
        ("memory://", "CONTEXT_STORE_URL_INVALID", "ends with its process"),
        ("sqlite:///no/such/folder/ce.db", "CONTEXT_STORE_UNAVAILABLE", "no/such/folder"),
        ("file:no/such/folder", "CONTEXT_STORE_UNAVAILABLE", "no/such/folder"),
    ],
)
@pytest.mark.req("A-25")
def test_a_store_that_cannot_be_read_is_an_error_of_ours(store: str, code: str, words: str) -> None:
    result = ce("sessions", "--store", store)
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert line.startswith(f"error [{code}]: ")
    assert words in line


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "ce.db"
    file.write_bytes(b"a letter to my sister\n" * 400)
    before = file.read_bytes()
    result = ce("sessions")
    assert result.exit_code == 1
    assert "is no SQLite database" in result.stderr
    assert file.read_bytes() == before


def test_with_json_an_error_is_an_object_on_stderr(url: str) -> None:
    result = ce("show", "nobody's", "--json", "--store", url)
    assert (result.exit_code, result.stdout) == (1, "")
    error: dict[str, Any] = json.loads(result.stderr)["error"]
    assert error["code"] == "CONTEXT_SESSION_NOT_FOUND"
    assert '"nobody\'s"' in error["message"]


@pytest.mark.parametrize(
    "args",
    [
        ["show"],
        ["sessions", "--nope"],
        ["nope"],
        ["demo", "--turns", "0"],
        ["report", "s", "--turn"],
    ],
)
def test_wrong_usage_is_exit_code_2(args: list[str]) -> None:
    assert ce(*args).exit_code == 2


@pytest.mark.parametrize(
    "args",
    [
        ["nope{}"],
        ["--nope{}"],
        ["verify", "--nope{}"],
        ["verify", "--no{}=x"],
        ["show", "s", "beyond{}"],
        ["report", "s", "--turn"],
        ["demo", "--turns", "many{}"],
        ["constraints", "nope{}"],
        ["constraints", "list", "--nope{}"],
    ],
    ids=" ".join,
)
def test_wrong_usage_sends_nothing_that_steers_a_terminal(args: list[str]) -> None:
    signs = "\u202e\u2066\x1b]0;x\x07\x1b[2J\x9b1m\u2028"
    told = ce(*(arg.format(signs) for arg in args))
    assert told.exit_code == 2
    assert "Error" in told.stderr
    assert CONTROL.findall(told.output) == []


@pytest.mark.req("B-03")
def test_a_session_of_several_users_needs_the_user(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ce.db")
    engine = create_context_engine(url)
    engine.sync.check()
    for user in ("ann", "bob"):
        talk(engine, Scope(session_id="s", user_id=user)).ask("Who am I?", f"You are {user}.")
    engine.sync.close()
    for command in ("show", "report"):
        refused = ce(command, "s", "--store", url)
        assert refused.exit_code == 1
        assert "[CONTEXT_SESSION_AMBIGUOUS]" in refused.stderr
        assert all(word in refused.stderr for word in ("'ann'", "'bob'", "--user"))
    shown = ce("show", "s", "--store", url, "--user", "ann").stdout
    assert "You are ann." in shown
    assert "You are bob." not in shown


# Processes


def test_help_starts_without_databases_vocabularies_and_frameworks() -> None:
    code = (
        "import sys; from ce_engine.apps.cli import main; sys.argv = ['ce', '--help']\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
    loaded = {name.partition(".")[0] for name in done.stderr.decode().split()}
    assert "typer" in loaded
    heavy = {"sqlalchemy", "alembic", "tiktoken", "langchain", "langchain_core", "langgraph"}
    assert loaded & heavy == set()


def test_a_process_without_a_terminal_prints_plain_text(url: str) -> None:
    done = process("sessions", "--account", "acme", CE_STORE_URL=url, TERM="xterm-256color")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert TALK.session_id in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120


def test_an_error_of_ours_has_no_traceback() -> None:
    done = process("show", "s")
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_an_encoding_that_lacks_the_characters_loses_none_of_the_json(url: str) -> None:
    at = ("--account", "acme", "--store", url)
    done = process("sessions", "--json", *at, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["user_id"] == "张伟"
    plain = process("sessions", *at, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert plain.returncode == 0
    assert "by-hand" in plain.stdout
