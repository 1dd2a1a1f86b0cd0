"""A call that goes out over its budget is never quiet: one line in the log, the cause in the report and at its top."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    MemoryStore,
    Report,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
    open_store,
)
from ce_engine.errors import BudgetExceededError
from ce_engine.testing.host import HostApp, system, user
from tests.hosts.cli_host import ce, url_of


SCOPE = Scope(session_id="s")
MAIL = "zhang.wei@example.com"
TOOL = {"name": "look", "description": "word " * 30, "parameters": {"type": "object"}}


def tight(tokens: int = 100, **more: Any) -> RuntimeConfig:
    budget = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
    return RuntimeConfig(budget=budget, store=StoreConfig(deadline_s=20), **more)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), config=tight())
    yield made
    made.sync.close()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def report_of(engine: ContextEngine, *messages: Any, **call: Any) -> Report:
    app = HostApp(engine, SCOPE, list(messages[:-1]))
    return app.prepare(messages[-1], **call).report


LONG = "words " * 200
CAUSES: dict[str, tuple[list[Any], dict[str, Any], list[str]]] = {
    "the system message": ([system(LONG), user("q?")], {}, ["system"]),
    "the task": ([system("s"), user(LONG)], {}, ["task"]),
    "tools": ([user("q?")], {"tools": [TOOL, TOOL, TOOL]}, ["tools"]),
    "several together": (
        [system("words " * 60), user("q?")],
        {"tools": [TOOL]},
        ["system", "tools"],
    ),
    "a helper's prompt": ([system("s"), user(LONG)], {"purpose": "helper"}, ["helper"]),
}


@pytest.mark.parametrize("case", CAUSES)
def test_the_report_names_the_cause(engine: ContextEngine, case: str) -> None:
    """The fewest parts that are more than the budget without anything else."""
    messages, call, names = CAUSES[case]
    report = report_of(engine, *messages, **call)
    assert report.over_budget
    assert list(report.over_budget_causes) == names
    assert sum(report.over_budget_causes.values()) > 100
    assert sum(list(report.over_budget_causes.values())[:-1]) <= 100


def test_what_fits_has_no_cause(engine: ContextEngine, caplog: pytest.LogCaptureFixture) -> None:
    assert report_of(engine, system("s"), user("q?")).over_budget_causes == {}
    assert lines(caplog) == []


def test_the_log_has_one_line_a_session(
    engine: ContextEngine, caplog: pytest.LogCaptureFixture
) -> None:
    report = report_of(engine, system(LONG), user("q?"))
    for _ in range(3):
        report_of(engine, system(LONG), user("again?"))
    other = Scope(session_id=f"talk of {MAIL}")
    HostApp(engine, other).prepare(user(LONG))
    first, second = lines(caplog)
    assert first == (
        f"session s: a call goes out with {report.token_used} tokens, its budget has 100: "
        f"system message {report.over_budget_causes['system']}; see: ce report s"
    )
    assert second.startswith("session talk of [EMAIL_1]: a call goes out with ")
    assert "task message " in second
    assert MAIL not in caplog.text
    assert "words words" not in caplog.text


def test_what_is_refused_does_not_go_out(caplog: pytest.LogCaptureFixture) -> None:
    engine = create_context_engine(MemoryStore(), config=tight(fail="closed"))
    with pytest.raises(BudgetExceededError, match="system message"):
        report_of(engine, system(LONG), user("q?"))
    engine.sync.close()
    assert lines(caplog) == []


def test_ce_report_counts_them_at_the_top(tmp_path: Any) -> None:
    url = url_of(tmp_path / "ce.db")
    engine = create_context_engine(open_store(url), config=tight())
    app = HostApp(engine, SCOPE)
    for messages in (
        [user("fits")],
        [system(LONG), user("q?")],
        [user(LONG)],
        [system(LONG), user("r?")],
    ):
        app = HostApp(engine, SCOPE, messages[:-1])
        app.prepare(messages[-1])
    engine.sync.close()
    said = ce("report", "s", "--store", url, columns=400).stdout
    assert "; alone too much: task message " in said
    first = said.splitlines()[0]
    assert first == "3 calls over the budget: system message (turns 2, 4); task message (turn 3)"
