"""Forks, spawned processes, notebooks and many event loops: nothing lost, mixed or hung."""

from __future__ import annotations

from tests.faults.workers_run import APPS, WAYS, run


def test_nothing_is_lost_or_mixed_and_no_child_waits_for_a_lock_of_its_parent() -> None:
    # One process for all: most of its time goes into imports.
    each = [(app, way) for app in APPS if app != "spawn" for way in WAYS]
    each.remove(("locks", "by hand"))  # the locks of LangChain's way are these and more
    result = run(each, workers=2, calls=2)
    assert result.wrong == []
    assert result.counts["sessions compared"] > 40, "of the locks alone there are more than 20"


def test_spawned_processes_lose_and_mix_nothing() -> None:
    result = run([("spawn", "LangChain")], workers=1, calls=2)
    assert result.wrong == []
    assert result.counts["turns answered"] == 3 * 2 + 2, "of three threads, and of the parent"
