"""A writing process is killed: what it said is stored is there, once and whole; `crash_run.py` kills hundreds."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from ce_engine.stores.tables.packing import shorten
from tests import postgres_server
from tests.faults import crash_run
from tests.faults.crash_judge import copied, judge, url_of
from tests.hosts.cli_host import ce


pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> crash_run.Run:
    """A run over an SQLite file, with every way of leading a session."""
    folder = tmp_path_factory.mktemp("crash") / "store"
    folder.mkdir()
    made = crash_run.Run("sqlite", 7, folder)
    made.rounds(6)
    return made


@pytest.mark.req("A-07", "A-15", "B-01", "B-07")
def test_what_was_acknowledged_survives_a_kill(killed: crash_run.Run) -> None:
    assert killed.wrong == []
    assert killed.counts["killed"] == 6
    assert killed.counts["killed inside a transaction"] >= 2
    assert killed.counts["acknowledged"] > 20
    assert killed.counts["turns left open by the killed"] > 3


def test_the_command_counts_what_it_does_to_a_file_store(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert crash_run.main(["--times", "3", "--seed", "2", "--store", "file"]) == 0
    first, *counts = capsys.readouterr().out.splitlines()
    assert first == "file, seed 2: 3 times, 0 failed"
    assert "       3  killed" in counts


@pytest.mark.req("A-07", "A-15", "B-01", "B-07")
def test_what_a_redis_server_acknowledged_survives_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")
    made = crash_run.Run("redis", 3, tmp_path)
    made.rounds(4)
    assert made.wrong == []
    assert made.counts["killed"] == 4
    assert made.counts["acknowledged"] > 10


@pytest.mark.req("A-07", "A-15", "B-01", "B-07")
@pytest.mark.skipif(not postgres_server.IS_THERE, reason="no PostgreSQL here")
def test_what_a_postgresql_server_acknowledged_survives_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")
    made = crash_run.Run("postgresql", 3, tmp_path / "store")
    made.folder.mkdir()
    made.rounds(4)
    assert made.wrong == []
    assert made.counts["killed"] == 4
    assert made.counts["acknowledged"] > 10
    assert copied_to(made, "file", tmp_path / "other") == []


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_what_is_sealed_survives_a_kill(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CE_ENCRYPTION_KEY", "a key of tests that is long enough")
    made = crash_run.Run(kind, 4, tmp_path / "store")
    made.folder.mkdir()
    made.rounds(3)
    assert made.wrong == []
    assert made.counts["acknowledged"] > 10
    there = b"".join(path.read_bytes() for path in made.folder.rglob("*") if path.is_file())
    assert b"answered by process" not in there


def copied_to(made: crash_run.Run, kind: str, folder: Path) -> list[str]:
    """Copy what is stored with `ce copy`; what is wrong with the copy."""
    folder.mkdir()
    done = ce("copy", url_of(made.folder, made.kind), url_of(folder, kind))
    assert done.exit_code == 0, done.stderr
    return judge(folder, kind, made.known, made.known).wrong


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_copy_of_what_was_killed_has_all_that_was_acknowledged(
    killed: crash_run.Run, kind: str, tmp_path: Path
) -> None:
    assert copied_to(killed, kind, tmp_path / "other") == []


def test_the_command_fails_and_says_what(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash_run, "run", lambda *_: (Counter(killed=1), ["round 0: s: lost"]))
    assert crash_run.main(["--times", "1"]) == 1
    assert "FAILED round 0: s: lost" in capsys.readouterr().out


# The judge bites

ROLE = f"x'{shorten('assistant').hex()}'"
ANSWER = f"(SELECT message_id FROM ce_messages WHERE role = {ROLE} ORDER BY rowid LIMIT 1)"
TURN = f"(SELECT turn_id FROM ce_turns WHERE answer_message_id = {ANSWER})"
DAMAGE = {
    "acknowledged and lost": f"DELETE FROM ce_messages WHERE role = {ROLE}",  # not each is acknowledged
    "stored more than once": "UPDATE ce_messages SET content = "
    "(SELECT content FROM ce_messages m WHERE m.session = ce_messages.session AND m.seq = 1) "
    "WHERE seq = 3",
    "stored and never handed in": f"UPDATE ce_messages SET content = 'x' WHERE message_id = {ANSWER}",
    "numbers": f"UPDATE ce_messages SET seq = 1000 WHERE message_id = {ANSWER}",
    "in another order": "UPDATE ce_messages SET seq = 1000 - seq",
    "answers and committed turns differ": f"UPDATE ce_turns SET status = 'failed' "
    f"WHERE turn_id = {TURN}",
    "usages and turns differ": f"DELETE FROM ce_model_usage WHERE turn_id = {TURN}",
    "outputs and turns differ": f"DELETE FROM ce_evidence WHERE message_id = {ANSWER}",
    "tool calls without their results": "DELETE FROM ce_tool_calls",
    "invariants": "DELETE FROM ce_evidence",
    "the chain": "UPDATE ce_events SET ts = 'x' WHERE seq = 2",
    "nobody can check": "UPDATE ce_events SET payload_mac = '', nonce = ''",
    "events of messages": "DELETE FROM ce_events",
    "has open turns of dead processes": "UPDATE ce_turns SET status = 'open' "
    "WHERE status = 'abandoned'",
    "the session is gone": "DELETE FROM ce_sessions",
}


@pytest.mark.parametrize("told", DAMAGE)
def test_the_judge_finds(killed: crash_run.Run, told: str) -> None:
    folder = copied(killed.folder)
    with closing(sqlite3.connect(folder / "ce.db")) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        assert connection.execute(DAMAGE[told]).rowcount > 0
    found = judge(folder, "sqlite", killed.known, killed.known)
    assert any(told in each for each in found.wrong), found.wrong


def test_the_judge_finds_a_damaged_file(killed: crash_run.Run) -> None:
    folder = copied(killed.folder)
    with closing(sqlite3.connect(folder / "ce.db")) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET rootpage = 3 WHERE name = 'ce_open_turns'")
    found = judge(folder, "sqlite", {}, ())
    assert [each.partition(" [")[0] for each in found.wrong] == ["the file: the file is damaged"]
