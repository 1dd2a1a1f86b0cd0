"""Forks, spawned processes, notebooks and many event loops: nothing lost, mixed or hung."""

from __future__ import annotations

from tests.faults.workers_run import APPS, WAYS, run


def test_nothing_is_lost_or_mixed() -> None:
    # One process for all: most of its time goes into imports.
    each = [(app, way) for app in APPS if app not in ("spawn", "locks") for way in WAYS]
    result = run(each, workers=2, calls=2)
    assert result.wrong == []
    assert result.counts["sessions compared"] > 20


def test_no_child_waits_for_a_lock_of_its_parent() -> None:
    # A parent that forks waits two seconds for each lock that another thread holds.
    result = run([("locks", "LangChain")], workers=2, calls=2)  # those of the way by hand, and more
    assert result.wrong == []
    assert result.counts["sessions compared"] > 20, "one for each lock"


def test_spawned_processes_lose_and_mix_nothing() -> None:
    result = run([("spawn", "LangChain")], workers=1, calls=2)
    assert result.wrong == []
    assert result.counts["turns answered"] == 3 * 2 + 2, "of three threads, and of the parent"
