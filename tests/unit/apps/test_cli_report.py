"""`ce report`: a line a turn with what was sent, kept, dropped, and why."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from ce_engine import (
    ContextEngine,
    ObservabilityConfig,
    Report,
    RuntimeConfig,
    Scope,
    create_context_engine,
    open_store,
)
from ce_engine.schema.report import PruneDecision
from ce_engine.schema.rows import PutTurn, TurnRow
from ce_engine.testing.host import HostApp, system, user
from tests.hosts.cli_host import TALK, ce, fill, talk, url_of


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A talk that is far over its budget."""
    found = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    fill(found, chatter=12)
    return found


@pytest.fixture
def at(url: str) -> tuple[str, ...]:
    return (TALK.session_id, "--store", url, "--account", "acme")


def told(*args: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ce("report", "--json", *args).stdout)
    return found


def rows(text: str) -> dict[int, str]:
    """Each turn's line, by its number."""
    found = (re.match(r" *(\d+) +(\d+/\d+|-) .*", line) for line in text.splitlines())
    return {int(match[1]): match[0] for match in found if match}


def left_out(turn: dict[str, Any]) -> str:
    """What `report` says of the older groups that a turn left out."""
    decisions = [d for d in turn["report"]["prune_decisions"] if d["reason"] == "below_cut"]
    groups = sum(decision["count"] for decision in decisions)
    return f"{groups} older groups left out" if groups else ""


@pytest.mark.req("D-07")
def test_the_json_has_every_turn_with_its_stored_report(at: tuple[str, ...]) -> None:
    turns = told(*at)
    assert [turn["turn"] for turn in turns] == list(range(1, 16))
    assert {turn["status"] for turn in turns} == {"committed"}
    assert all(turn["answer_message_id"] and turn["model_usage_id"] for turn in turns)
    reports = [Report.model_validate(turn["report"]) for turn in turns]
    assert [report.turn_id for report in reports] == [turn["turn_id"] for turn in turns]
    assert all(report.token_used <= (report.token_budget or 0) for report in reports)
    last = reports[-1]
    assert last.dropped > 0
    assert last.tokens_before > last.token_used
    assert any(decision.action == "dropped" for decision in last.prune_decisions)


def test_a_line_has_the_figures_of_its_turn(at: tuple[str, ...]) -> None:
    by_turn = rows(ce("report", *at).stdout)
    turns = told(*at)
    assert sorted(by_turn) == [turn["turn"] for turn in turns]
    for turn in turns:
        report, cells = turn["report"], by_turn[turn["turn"]].split()
        assert cells[1] == f"{report['messages_sent']}/{report['messages_in']}"
        names = ("dropped", "inserted")  # nothing was shortened or brought back: no such column
        assert [0 if c == "-" else int(c) for c in cells[2:4]] == [report[name] for name in names]
        assert cells[4] == f"{report['token_used']:,}/{report['token_budget']:,}"
        cost = turn["cost"]
        assert cells[6:8] == [f"{cost['sent']:,.0f}", f"{cost['untouched']:,.0f}"]


def test_the_reasons_are_in_words(at: tuple[str, ...]) -> None:
    first, *_, last = told(*at)
    by_turn = rows(ce("report", *at, columns=400).stdout)
    assert by_turn[1].endswith("committed  everything fits")
    assert left_out(last)
    assert left_out(last) in by_turn[15]
    kinds = last["report"]["payload_tokens"]
    brought = sum(
        kinds.get(kind, 0) for kind in ("rules", "memory", "knowledge", "state", "summary")
    )
    assert f"{brought} tokens brought in" in by_turn[15]
    assert first["report"]["prefix_tokens_unchanged"] is None
    assert " first " in by_turn[1]


def test_the_summary_adds_up(at: tuple[str, ...]) -> None:
    reports = [turn["report"] for turn in told(*at)]
    sent = sum(report["token_used"] for report in reports)
    before = sum(report["tokens_before"] for report in reports)
    same = sum(report["prefix_tokens_unchanged"] or 0 for report in reports)
    text = ce("report", *at).stdout
    assert f"15 turns · {sent:,} tokens sent · {before:,} without us" in text
    assert f"prefix reused {100 * same / sent:.0f}%" in text


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_every_width_has_all_figures_and_reasons(at: tuple[str, ...], columns: int) -> None:
    text = ce("report", *at, columns=columns).stdout
    assert max(map(len, text.splitlines())) <= columns
    assert sorted(rows(text)) == list(range(1, 16))
    whole = " ".join(text.split())
    assert all(left_out(turn) in whole for turn in told(*at))


def test_without_a_terminal_the_reasons_stand_in_the_lines(at: tuple[str, ...]) -> None:
    by_turn = rows(ce("report", *at).stdout)
    assert by_turn[1].endswith("  everything fits")
    assert " older groups left out" in by_turn[15]


def test_one_turn_by_number_or_id_with_all_decisions(at: tuple[str, ...]) -> None:
    turns = told(*at)
    turn_id = turns[14]["turn_id"]
    [one] = told(*at, "--turn", "15")
    assert told(*at, "--turn", turn_id[:13]) == [one]
    assert {name: value for name, value in one.items() if name != "brought_in"} == turns[14]
    text = ce("report", *at, "--turn", "15").stdout
    assert turn_id in text
    decisions = turns[14]["report"]["prune_decisions"]
    head = text.index(f"Decisions ({len(decisions)})")
    assert len(text[head : text.index("\nIds")].splitlines()) == 2 + len(decisions)
    for decision in decisions:
        pattern = rf"{decision['action']} .* {decision['token_estimate']:,}\n"
        assert re.search(pattern, text[head:])
    assert all(item in text for item in turns[14]["report"]["injected_evidence_ids"])


@pytest.mark.parametrize("turn", ["0", "16", "nope", "-1"])
def test_a_turn_that_is_not_there(at: tuple[str, ...], turn: str) -> None:
    result = ce("report", *at, "--turn", turn)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "[CONTEXT_TURN_NOT_FOUND]" in result.stderr
    assert "from 1 to 15" in result.stderr


# Turns that went another way


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> ContextEngine:
    made = create_context_engine(url_of(tmp_path_factory.mktemp("other") / "ce.db"))
    made.sync.check()
    return made


def report_of(engine: ContextEngine, *more: str) -> str:
    engine.sync.close()
    return ce("report", "s", "--store", engine.store.url, *more, columns=400).stdout


def test_a_turn_that_failed_and_was_tried_again(engine: ContextEngine) -> None:
    app = HostApp(engine, Scope(session_id="s"), [system("You help.")])
    first = app.prepare(user("Hello?"))
    engine.sync.fail(first.turn, "PROVIDER_TIMEOUT")
    app.ask("Hello again?", "Hi.")
    waiting = app.prepare(user("One more?"))
    engine.sync.fail(waiting.turn, "PROVIDER_TIMEOUT")
    app.prepare(new_request=False)
    by_turn = rows(report_of(engine))
    status = {
        turn: re.findall(r"(?:failed|committed|open)(?: x\d)?", by_turn[turn]) for turn in by_turn
    }
    assert status == {1: ["failed"], 2: ["committed"], 3: ["open x2"]}
    assert "error PROVIDER_TIMEOUT" in by_turn[1]
    assert "no budget is known" in by_turn[1]


def test_without_stored_reports_the_turns_are_told(engine: ContextEngine) -> None:
    silent = RuntimeConfig(observability=ObservabilityConfig(include_reports_in_store=False))
    HostApp(engine, Scope(session_id="s")).ask("Hello?", "Hi.", config=silent)
    text = report_of(engine)
    assert "committed  no report is stored" in text
    assert "1 without a report" in text
    [turn] = json.loads(ce("report", "s", "--json", "--store", engine.store.url).stdout)
    assert (turn["report"], turn["status"]) == (None, "committed")
    assert "no report is stored" in report_of(engine, "--turn", "1")


def test_a_session_without_turns(engine: ContextEngine) -> None:
    engine.sync.record_event(Scope(session_id="s"), "planner", {"step": 1})
    assert "no turns" in report_of(engine)
    refused = ce("report", "s", "--turn", "1", "--store", engine.store.url)
    assert refused.exit_code == 1
    assert "has no turns" in refused.stderr


def put(url: str, row: TurnRow) -> None:
    async def write() -> None:
        store = open_store(url)
        await store.apply(Scope(session_id="s"), [PutTurn(row)])
        await store.close()

    asyncio.run(write())


def test_what_deserves_attention_comes_first_and_new_reasons_are_told(
    engine: ContextEngine,
) -> None:
    report = Report(
        turn_id="t-1",
        stable_prefix_hash="mac:1",
        token_budget=100,
        token_used=150,
        over_budget=True,
        warnings=["CONTEXT_OVER_BUDGET"],
        degradations=["CONTEXT_STORE_UNAVAILABLE"],
        prune_decisions=[
            PruneDecision(block_id="a", action="dropped", reason="full_moon", token_estimate=7),
            PruneDecision(block_id="b", action="kept", reason="fits", token_estimate=7),
            PruneDecision(
                block_id="c", action="dropped", reason="full_moon", token_estimate=7, count=2
            ),
        ],
    )
    data = report.model_dump(mode="json", exclude_defaults=True, exclude={"turn_id"})
    put(engine.store.url, TurnRow("t-1", report=data))
    text = report_of(engine)
    why = rows(text)[1].partition(" open ")[2]
    assert why.strip().split("; ") == [
        "OVER BUDGET: what is never left out is more than the budget",
        "the store was unavailable",
        "3 dropped: full moon",
    ]
    assert text.startswith("1 call over the budget: unknown (turn 1)\n")


@pytest.mark.req("A-25")
def test_a_report_of_a_newer_release_is_an_error_of_ours(engine: ContextEngine) -> None:
    data = {"stable_prefix_hash": "mac:1", "from_the_future": 1}
    put(engine.store.url, TurnRow("t-1", report=data))
    engine.sync.close()
    result = ce("report", "s", "--store", engine.store.url)
    assert result.exit_code == 1
    assert "error [CONTEXT_SCHEMA_INVALID]" in result.stderr
    assert "from_the_future" in result.stderr


def test_helper_calls_are_named(engine: ContextEngine) -> None:
    app = talk(engine, Scope(session_id="s"))
    helper = app.prepare(user("Summarise."), purpose="helper")
    engine.sync.fail(helper.turn, "NOT_NEEDED")
    assert "helper call; " in report_of(engine)
