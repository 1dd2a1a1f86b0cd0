"""What another process deleted goes from this one's memory with the session's next call here (A-30)."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from ce_engine import BudgetConfig, RuntimeConfig, Scope, StoreConfig, create_context_engine
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import process
from tests.unit.audit.test_forgotten_words import SCOPE, Word, holders, talk


# How much this process remembers of sessions, and what is deleted elsewhere.
WAYS = {
    ("sqlite:///{}/ce.db", 10_000_000): ("--session", SCOPE.session_id, "--user", SCOPE.user_id),
    ("file://{}/sessions", 0): ("--user", SCOPE.user_id),
}
OTHER = Scope(session_id="other", user_id="ben")


def config(view_bytes: int) -> RuntimeConfig:
    store = StoreConfig(deadline_s=30, view_bytes=view_bytes)
    budget = BudgetConfig(max_input_tokens=400, reserved_reply_tokens=0)
    return RuntimeConfig(store=store, budget=budget)


@pytest.fixture
def _whole_heap() -> Iterator[None]:
    """See what was made before the tests began, too: `conftest` freezes it."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.req("A-30")
@pytest.mark.usefixtures("_whole_heap")
@pytest.mark.timeout(600)  # it looks through the whole heap
def test_the_next_call_of_a_session_forgets_what_another_process_deleted(tmp_path: Path) -> None:
    engines = []
    for (place, view_bytes), options in WAYS.items():
        store = place.format(tmp_path)
        engines.append(engine := create_context_engine(store, config=config(view_bytes)))
        talk(engine, Word(f"case{len(engines)}"))
        HostApp(engine, OTHER).ask("Hello?", "Hi.")  # for which the first view may go
        assert engine.sync.flush()
        done = process("delete", *options, "--yes", "--store", store)
        assert done.returncode == 0, done.stderr
        assert next(holders(), ""), "nobody has it before: nothing can be seen"
        HostApp(engine, SCOPE).ask("Who are you?", "A helper.")
    gc.collect()
    assert sorted(set(holders())) == []
    for engine in engines:
        engine.sync.close()
