"""A store that stays away is told of once, and again when it was back meanwhile (decision 10)."""

from __future__ import annotations

import logging

import pytest

from ce_engine import RuntimeConfig, Scope, StoreConfig, create_context_engine
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp


ALWAYS_ASKED = RuntimeConfig(store=StoreConfig(deadline_s=20, breaker_s=0))
"""Each call finds anew that the store is away."""


def test_a_store_that_stays_away_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    store = SwitchStore(refuses=True)
    engine = create_context_engine(store, config=ALWAYS_ASKED)
    app = HostApp(engine, Scope(session_id="s"))

    def told() -> int:
        return sum("is unavailable" in record.getMessage() for record in caplog.records)

    with caplog.at_level(logging.WARNING, "ce_engine.store"):
        for n in range(3):
            assert app.ask(f"question {n}", "answer").report.degradations
        assert not engine.sync.flush(timeout_s=0.1)
        assert told() == 1
        store.refuses = False
        assert engine.sync.flush(timeout_s=20)
        store.refuses = True
        for n in range(3):
            app.ask(f"and {n}", "answer")
        assert told() == 2
        store.refuses = False
        engine.sync.close()
