"""What runs retrieved is known as they got it while it may be in a prompt, and counts while it is known."""

from __future__ import annotations

import pytest

from ce_engine import (
    ContextEngine,
    MemoryStore,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.schema.enums import TurnStatus
from ce_engine.sessions import sessions as kept
from ce_engine.sessions.view import MAX_REMEMBERED
from ce_engine.testing.host import HostApp, user


PAGE = "天文台 " * 2_000
PAGE_BYTES = 2 * len(PAGE)


def retrieve(engine: ContextEngine, session: str, run: int) -> None:
    """A run of a session finds a page that is stored without the mail in it."""
    page = f"m@example.com: {PAGE}"
    hit = Retrieval("kb", "q", [RetrievedDoc(page)], f"run-{run}")
    engine.sync.record_retrieval(Scope(session_id=session), hit, request_id=f"r{run}")


def test_a_document_counts_once_for_each_run_that_is_remembered() -> None:
    engine = create_context_engine(MemoryStore())
    views = engine._sessions._views

    def counted(runs: range) -> int:
        before = views.bytes
        for run in runs:
            retrieve(engine, "s", run)
        return views.bytes - before

    counted(range(1))
    more = counted(range(1, MAX_REMEMBERED)) / (MAX_REMEMBERED - 1)
    assert PAGE_BYTES <= more < 1.1 * PAGE_BYTES
    # As many are forgotten as come.
    assert counted(range(MAX_REMEMBERED, 2 * MAX_REMEMBERED)) < PAGE_BYTES
    engine.sync.close()


@pytest.mark.parametrize("sessions", [3, 30])
def test_documents_of_runs_stay_within_the_bound_of_the_views(sessions: int) -> None:
    bound = 40 * PAGE_BYTES
    engine = create_context_engine(
        MemoryStore(), config=RuntimeConfig(store=StoreConfig(view_bytes=bound))
    )
    for run in range(8):
        for session in range(sessions):
            retrieve(engine, f"s{session}", run)
    views = engine._sessions._views
    held = {  # a text that two hold is in memory once
        id(live): 2 * len(live)
        for view in views._views.values()
        for memory in view.requests.values()
        for _, live in memory.documents
    }
    assert sum(held.values()) <= views.bytes <= bound
    engine.sync.close()


def test_documents_of_runs_under_way_are_bounded_where_the_views_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Turns that nobody ends keep what they found; the oldest of them end before that is too much."""
    bound = 40 * PAGE_BYTES
    monkeypatch.setattr(kept, "MAX_REPLACED_BYTES", bound)
    config = RuntimeConfig(store=StoreConfig(view_bytes=1))
    engine = create_context_engine(MemoryStore(), config=config)
    begun = []
    for n in range(60):
        retrieve(engine, f"s{n}", 0)
        begun.append(HostApp(engine, Scope(session_id=f"s{n}")).prepare(user("And?")).turn)
    held = [
        2 * len(live)
        for view in engine._sessions._replaced.values()
        for memory in view.requests.values()
        for _, live in memory.documents
    ]
    assert 10 * PAGE_BYTES < sum(held) <= bound
    assert [turn.status for turn in (begun[0], begun[-2])] == [
        TurnStatus.ABANDONED,
        TurnStatus.OPEN,
    ]
    engine.sync.close()
