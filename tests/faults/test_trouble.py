"""The store in trouble, in small: `trouble_run.py` has more of it, and measures the waits (decision 10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ce_engine import MemoryStore, RuntimeConfig, StoreConfig, open_store
from tests import postgres_server
from tests.faults import trouble_cases as cases
from tests.faults.trouble_judge import Outcome
from tests.hosts import redis_host


PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=5, breaker_s=0.05))
QUICK = RuntimeConfig(store=StoreConfig(deadline_s=0.02, breaker_s=0.05))
SMALL = RuntimeConfig(store=StoreConfig(deadline_s=0.02, breaker_s=0.05, buffer_bytes=20_000))

pytestmark = [pytest.mark.production_guard, pytest.mark.req("A-25", "D-09")]


def judged(outcome: Outcome, *counted: str) -> None:
    assert outcome.failed == []
    for name in counted:
        assert outcome.counts[name]


@pytest.mark.parametrize("seed", range(3))
def test_a_store_that_comes_and_goes(seed: int) -> None:
    outcome, _ = cases.comes_and_goes(seed, 30, QUICK, MemoryStore())
    judged(outcome, "of them marked late")


def test_an_sqlite_file_that_comes_and_goes(tmp_path: Path) -> None:
    outcome, _ = cases.comes_and_goes(1, 20, QUICK, open_store(f"sqlite:///{tmp_path / 'ce.db'}"))
    judged(outcome, "of them marked late")


def test_a_redis_server_that_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")
    outcome, _ = cases.comes_and_goes(1, 20, QUICK, open_store(redis_host.fresh_url()))
    judged(outcome, "of them marked late")


@pytest.mark.skipif(not postgres_server.IS_THERE, reason="no PostgreSQL here")
def test_a_postgresql_server_that_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_SECRET", "a secret of tests that is long enough")
    with postgres_server.new_schema() as url:
        outcome, _ = cases.comes_and_goes(1, 20, QUICK, open_store(url))
    judged(outcome, "of them marked late")


def test_a_store_that_loses_what_it_is_given() -> None:
    judged(cases.loses(1, 20, QUICK, MemoryStore()), "messages lost and named")


def test_a_buffer_that_is_full() -> None:
    outcome = cases.loses(1, 40, SMALL, MemoryStore(), ("refuses",))
    judged(outcome, "messages lost and named")


def test_reports_say_it() -> None:
    judged(cases.told_in_reports(1, 20, SMALL, MemoryStore()), "gaps named")


def test_by_hand() -> None:
    judged(cases.by_hand(1, 20, QUICK, MemoryStore()), "of them marked late")


@pytest.mark.parametrize("seed", range(len(cases.DAMAGE)))
def test_one_damaged_record(seed: int, tmp_path: Path) -> None:
    judged(cases.damaged_record(seed, 12, PATIENT, tmp_path / "ce.db"))


def test_an_overwritten_file(tmp_path: Path) -> None:
    outcome = cases.overwritten(1, 10, QUICK, tmp_path / "ce.db")
    judged(outcome, "times that bytes were overwritten")
