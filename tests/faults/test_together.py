"""Threads, tasks and processes write at once: never mixed, nothing lost; `together_run.py` has many more."""

from __future__ import annotations

from pathlib import Path

import pytest

from ce_engine import ModelCall, Scope
from ce_engine.testing.host import user
from tests import postgres_server
from tests.faults import together_run
from tests.faults.ledger import MESSAGE, Found, compare
from tests.faults.together_replacing import compare_replaced
from tests.faults.together_run import SHARED, Run, Size
from tests.faults.together_talks import (
    AS_SHIPPED,
    PATIENT,
    Heard,
    Rig,
    Talk,
    Waits,
    answer_to,
    ledgers,
)


pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SMALL = Size(threads=8, sessions=6, tasks=24, processes=3, own=2, turns=2, replaced=2)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(SMALL, 1, tmp_path)


@pytest.fixture
def on_redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")
    return Run(SMALL, 1, tmp_path, "redis")


@pytest.mark.req("A-07", "A-15", "D-04")
def test_all_on_a_redis_server(on_redis: Run) -> None:
    on_redis.all_parts()
    assert on_redis.wrong == []
    assert on_redis.counts["threads: turns acknowledged"] == (6 * 4 + 8) * 2
    assert on_redis.counts["processes, patient: put: replaced"] == 3 * 2


@pytest.mark.req("A-07", "A-15", "D-04")
@pytest.mark.skipif(not postgres_server.IS_THERE, reason="no PostgreSQL here")
def test_all_on_a_postgresql_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")
    run = Run(SMALL, 1, tmp_path, "postgresql")
    run.all_parts()
    assert run.wrong == []
    assert run.counts["threads: turns acknowledged"] == (6 * 4 + 8) * 2
    assert run.counts["processes, patient: put: replaced"] == 3 * 2


@pytest.mark.req("A-07", "A-15")
def test_processes_on_a_sealed_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_ENCRYPTION_KEY", "a key of tests that is long enough")
    run.processes(PATIENT)
    assert run.wrong == []
    assert run.counts["processes, patient: turns acknowledged"] == 3 * (2 + 2) * 2


@pytest.mark.req("A-15", "C-12")
def test_threads(run: Run) -> None:
    run.threads()
    assert run.wrong == []
    assert run.counts["threads: turns acknowledged"] == (6 * 4 + 8) * 2


@pytest.mark.req("A-15")
def test_tasks_of_one_loop(run: Run) -> None:
    run.tasks()
    assert run.wrong == []
    assert run.counts["tasks: turns acknowledged"] == 24 * 2


@pytest.mark.req("A-07", "A-15", "D-04")
def test_processes_on_one_file_and_in_one_session(run: Run) -> None:
    run.processes(PATIENT)
    assert run.wrong == []
    of = {name.partition(": ")[2]: n for name, n in run.counts.items()}
    assert of["turns acknowledged"] == 3 * (2 + 2) * 2
    assert of["constraints: made"] + of.get("constraints: told after one retry", 0) == 3 * 2
    assert of["patch: replaced"] == of["tasks: replaced"] == of["put: replaced"] == 3 * 2


def test_the_command_counts_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together_run, "Size", lambda: SMALL)
    monkeypatch.setattr(Run, "processes", lambda *_: None)
    assert together_run.main(["--seed", "2"]) == 0
    first, *counts = capsys.readouterr().out.splitlines()
    assert first == "seed 2: 0 failed"
    assert "      48  tasks: turns acknowledged" in counts
    monkeypatch.setattr(Run, "threads", lambda self: self.wrong.append("threads: s: lost"))
    assert together_run.main([]) == 1
    assert "FAILED threads: s: lost" in capsys.readouterr().out


# The judge bites


def test_the_ear_finds_words_of_another_session() -> None:
    heard = Heard()
    heard.hear(["## State", "s 问 one asks 0", answer_to("s 问 one asks 0"), "s 问 two asks 0"])
    assert (heard.messages, heard.mixed) == (4, [])
    heard.hear(["t 问 one asks 0", "s 问 two asks 0"])
    assert heard.mixed == ["in s: t 问 one asks 0"]


@pytest.mark.parametrize("waits", [PATIENT, AS_SHIPPED], ids=["patient", "as shipped"])
def test_the_judge_finds_what_is_lost_or_mixed(tmp_path: Path, waits: Waits) -> None:
    """Whoever waits for nobody may store late, and twice; lose or mix it may as little."""
    rig = Rig(f"sqlite:///{tmp_path / 'ce.db'}")
    talk = Talk("s", "writer", by_model=False, turns=2)
    rig.lead(talk)
    known = ledgers(rig.acked, waits)["s"]

    def judged() -> str:
        found = Found()
        compare(rig.engine, talk.scope, known, found)
        return "; ".join(found.wrong)

    assert judged() == ""
    known.acked["writer"].reverse()
    assert "what writer said is in another order" in judged()
    known.acked["writer"].reverse()
    known.ack("writer", MESSAGE, "never stored")
    assert "acknowledged and lost {('message', 'never stored')}" in judged()
    known.acked["writer"].pop()
    rig.engine.sync.prepare(ModelCall(talk.scope, [user("t 问 of another session")]))
    assert rig.engine.sync.flush(60)
    assert "stored and never handed in {('message', 't 问 of another session')}" in judged()
    rig.close()


def test_the_judge_finds_a_lost_replacement(run: Run) -> None:
    run.processes(PATIENT)
    rig = Rig(run.url("processes, patient"))
    found = Found()
    compare_replaced(rig.engine, Scope(session_id=SHARED), ["a rule"], 7, found)
    rig.close()
    assert [each.split(" ")[1] for each in found.wrong] == [
        "constraints",
        "the",
        "the",
        "patched",
        "messages",
    ]
