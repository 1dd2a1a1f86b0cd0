"""A turn is made again with the summary that it had, though others took its place since (A-16, A-21)."""

from __future__ import annotations

import pytest

from ce_engine import (
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    create_context_engine,
)
from ce_engine.testing import MockLlmAdapter
from ce_engine.testing.host import HostApp, assistant, user
from tests.hosts.summary_host import SCOPE, Forgetful, make, sent, tight


pytestmark = pytest.mark.req("A-16", "A-21")

TURNS = 24


def talked(engine: ContextEngine, host: type[HostApp]) -> list[str]:
    """What went out in each call of a talk far over its budget."""
    app, wire = host(engine, SCOPE), list[str]()
    for n in range(TURNS):
        made = app.prepare(user(f"Tell me about item {n}. " * 4))
        wire.append(sent(made))
        app.commit(made, assistant(f"Item {n} is a lamp of the year {1900 + n}. " * 3))
        assert engine.sync.flush(20)  # which waits for a summary that is due
    return wire


@pytest.mark.parametrize("host", [HostApp, Forgetful])
def test_each_turn_has_the_summary_that_it_had(host: type[HostApp]) -> None:
    store, llm = MemoryStore(), MockLlmAdapter()
    engine = make(store, llm, tight(420, history="session"))
    wire = talked(engine, host)
    had = [n for n, text in enumerate(wire) if "summary 1" in text or "summary 2" in text]
    assert len(llm.requests) > 3
    assert had
    later = create_context_engine(store, CharBasedEstimator())
    for turn, text in enumerate(wire, start=1):
        replay = later.sync.replay(SCOPE, turn)
        assert "\n".join(part.content for part in replay.sent.parts) == text, turn
        assert replay.equal, turn
        assert not replay.problems
    engine.sync.close()


def test_a_summary_whose_text_was_deleted_is_named() -> None:
    store = MemoryStore()
    engine = make(store, MockLlmAdapter(), tight(420, history="session"))
    wire = talked(engine, HostApp)
    turn = next(n for n, text in enumerate(wire, start=1) if "summary 1" in text)
    first = next(e for e in engine.sync.list_evidences(SCOPE) if e.content == "summary 1")
    engine.sync.delete_evidence(SCOPE, first.evidence_id)
    later = create_context_engine(store, CharBasedEstimator())
    replay = later.sync.replay(SCOPE, turn)
    assert not replay.equal
    assert "summaries whose text is gone: 1" in [problem.detail for problem in replay.problems]
    engine.sync.close()
