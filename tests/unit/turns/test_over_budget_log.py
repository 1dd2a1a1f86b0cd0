"""What the log says of calls over their budget: a line each, whatever a session is called."""

from __future__ import annotations

import logging

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    MemoryStore,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, system, user


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("第七章", "第七章"),
        ("s\nERROR forged line", r"'s\nERROR forged line'"),
        ("s\x1b[2J", r"'s\x1b[2J'"),
        ("s\u202e", r"'s\u202e'"),
    ],
)
def test_who_names_a_session_begins_no_line_of_the_log(
    name: str, written: str, caplog: pytest.LogCaptureFixture
) -> None:
    budget = BudgetConfig(max_input_tokens=50, reserved_reply_tokens=0)
    config = RuntimeConfig(budget=budget)
    engine = create_context_engine(MemoryStore(), CharBasedEstimator(), config=config)
    with caplog.at_level(logging.WARNING, logger="ce_engine"):
        HostApp(engine, Scope(session_id=name), [system("s" * 4000)]).prepare(user("hi"))
    engine.sync.close()
    [line] = [r.getMessage() for r in caplog.records if "its budget has" in r.getMessage()]
    assert line.startswith(f"session {written}: ")
    assert line.isprintable()
