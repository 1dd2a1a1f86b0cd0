"""`ce report`: a line a turn with what was sent, kept, dropped, and why."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from rich.cells import cell_len

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
from tests.hosts.cli_host import TALK, ce, fill, process, talk, url_of


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
    return f"{groups} older messages or tool calls left out" if groups else ""


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
        given = report["messages_in"]
        assert cells[1] == f"{given - report['dropped']}/{given}"
        names = ("dropped", "inserted")  # nothing was shortened or brought back: no such column
        assert [0 if c == "-" else int(c) for c in cells[2:4]] == [report[name] for name in names]
        assert cells[4] == f"{report['token_used']:,}/{report['token_budget']:,}"
        cost = turn["cost"]  # the bar and what is the same stand between
        assert cells[7:9] == [f"{cost['sent']:,.0f}", f"{cost['untouched']:,.0f}"]


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
    costs = [turn["cost"] for turn in told(*at)]
    cost, without = (sum(each[name] for each in costs) for name in ("sent", "untouched"))
    text = ce("report", *at).stdout
    saved = f"saved {before - sent:,} ({100 * (before - sent) / before:.1f}%)"
    assert "\nsum       15 turns · " in text
    assert f"\ntokens    {sent:,} sent, {before:,} without us · {saved}\n" in text
    assert (
        f"\ncached    {same:,} tokens begin like the call before ({100 * same / sent:.1f}%)" in text
    )
    # So short a talk costs about what it costs without us; which is less, depends on the vocabulary. Halves are
    # rounded as the order of adding up has it.
    figures = r"\ncost      ([\d,]+) for inputs, ([\d,]+) without us · (saved )?([\d,]+)( more)? \([+]?([\d.]+)%\)"
    [(inputs, untouched, saves, change, more, share)] = re.findall(figures, text)
    wanted = (cost, without, abs(without - cost))
    for shown, value in zip((inputs, untouched, change), wanted, strict=True):
        assert abs(int(shown.replace(",", "")) - value) <= 0.51
    assert bool(saves) is (without >= cost)
    assert bool(more) is (without < cost)
    assert abs(float(share) - 100 * abs(without - cost) / without) <= 0.051


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
@pytest.mark.parametrize("full", [False, True])
def test_every_width_has_a_line_a_turn_and_the_first_reason(
    at: tuple[str, ...], columns: int, full: bool
) -> None:
    text = ce("report", *at, *(["--full"] if full else []), columns=columns).stdout
    assert max(map(cell_len, text.splitlines())) <= columns
    assert sorted(rows(text)) == list(range(1, 16))
    whole = " ".join(text.split())
    assert all(left_out(turn) in whole for turn in told(*at))
    if not full:
        table = text[: text.index("\nsum ")].splitlines()
        reasons = [line for line in table[1:] if not re.match(r" *\d", line)]
        assert len(reasons) <= 15, "a reason takes more than one line"


def test_without_a_terminal_whole_reasons_stand_in_the_lines(at: tuple[str, ...]) -> None:
    by_turn = rows(ce("report", *at).stdout)
    assert by_turn[1].endswith("  everything fits")
    assert " older messages or tool calls left out" in by_turn[15]
    assert "tokens brought in" in by_turn[15]
    assert "…" not in by_turn[15]


def bars(text: str) -> list[str]:
    """The bars of a report, without those of the legend."""
    return re.findall(r" ([▒█·!=#.]{6,})", text[: text.index("\nsum ")])


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_a_bar_tells_how_much_of_the_budget_is_used(at: tuple[str, ...], columns: int) -> None:
    turns, drawn = told(*at), bars(ce("report", *at, columns=columns).stdout)
    assert len(drawn) == len(turns)
    for turn, bar in zip(turns, drawn, strict=True):
        report = turn["report"]
        used = report["token_used"] / report["token_budget"]
        same = (report["prefix_tokens_unchanged"] or 0) / report["token_budget"]
        assert abs(1 - bar.count("·") / len(bar) - used) <= 1 / len(bar)
        assert abs(bar.count("▒") / len(bar) - same) <= 1 / len(bar)


def test_a_stream_without_blocks_has_letters(at: tuple[str, ...]) -> None:
    done = process("report", *at, PYTHONIOENCODING="ascii", PYTHONUTF8="0", COLUMNS="100")
    assert done.returncode == 0, done.stderr
    assert len(bars(done.stdout)) == 15
    assert not set("▒█?") & set("".join(bars(done.stdout)))


def test_colours_on_a_terminal_and_none_where_nobody_wants_them(at: tuple[str, ...]) -> None:
    coloured = process("report", *at, COLUMNS="100", FORCE_COLOR="1", TERM="xterm-256color").stdout
    assert re.search(r"\x1b\[3[46]m[▒█]+\x1b\[0m", coloured)
    plain = process(
        "report", *at, COLUMNS="100", FORCE_COLOR="1", NO_COLOR="1", TERM="xterm"
    ).stdout
    assert "\x1b[3" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == process("report", *at, COLUMNS="100").stdout


# Which turns


def test_turns_since_a_time_keep_their_numbers_and_have_their_own_sums(
    engine: ContextEngine,
) -> None:
    for turn, day in enumerate(("20", "21", "22"), start=1):
        report = Report(turn_id=f"t-{turn}", stable_prefix_hash="m", token_budget=99, token_used=9)
        data = report.model_dump(mode="json", exclude={"turn_id"})
        row = TurnRow(f"t-{turn}", report=data, opened_at=f"2026-11-{day}T10:00:00.000Z")
        put(engine.store.url, row)
    text = report_of(engine, "--since", "2026-11-21")
    assert sorted(rows(text)) == [2, 3]
    assert "\nsum       2 of 3 turns" in text
    assert "\ntokens    18 sent" in text
    at = ("s", "--store", engine.store.url)
    assert [turn["turn"] for turn in told(*at, "--since", "2026-11-22T10:00Z")] == [3]
    assert sorted(rows(ce("report", *at, "--since", "5000d").stdout)) == [1, 2, 3]
    nothing = ce("report", *at, "--since", "2026-12-01").stdout
    assert "no turns since 2026-12-01 00:00:00 UTC" in nothing
    assert "3 before" in nothing


@pytest.mark.parametrize("since", ["yesterday", "5 minutes", "999999w", "-1h"])
def test_a_time_that_is_none_names_what_is_expected(at: tuple[str, ...], since: str) -> None:
    refused = ce("report", *at, f"--since={since}")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"'{since}' is no time" in refused.stderr
    assert "24h" in refused.stderr


def test_options_that_do_not_go_together(at: tuple[str, ...]) -> None:
    for more in (["--since", "2h"], ["--follow"], ["--plot", "a.svg"]):
        refused = ce("report", *at, "--turn", "1", *more)
        assert refused.exit_code == 1
        assert "--turn shows one turn" in refused.stderr


def test_what_had_no_share_is_no_lack_of_budget(engine: ContextEngine) -> None:
    lost = [("m:1", "over_share", 79), ("m:2", "over_reserve", 4), ("summary", "over_budget", 1)]
    report = Report(
        turn_id="t-1",
        stable_prefix_hash="m",
        token_budget=1500,
        token_used=643,
        prune_decisions=[
            PruneDecision(
                block_id=name, action="dropped", reason=why, token_estimate=9, count=count
            )
            for name, why, count in lost
        ],
    )
    data = report.model_dump(mode="json", exclude={"turn_id"})
    put(engine.store.url, TurnRow("t-1", report=data))
    text = report_of(engine, "--turn", "1")
    assert "79 pieces kept out for an agent's next steps" in text
    assert "4 pieces kept out so that the cut lasts" in text
    assert "1 piece that found no room in what was left" in text
    assert "643/1,500 · 857 free" in text


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


def test_models_without_a_price_are_named(engine: ContextEngine) -> None:
    """Units alone leave a reader to guess which model they are for."""
    app = HostApp(engine, Scope(session_id="s"))
    for _ in range(2):
        app.ask("Hello?", "Hi.")
    for more in ((), ("--turn", "1")):
        [line] = [each for each in report_of(engine, *more).splitlines() if "units, since" in each]
        assert line.endswith("; no price is known of: model-1")


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


@pytest.mark.parametrize("columns", [None, 60, 80, 100, 200])
def test_hostile_and_wide_text_stays_text_on_its_line(
    engine: ContextEngine, columns: int | None
) -> None:
    rule = "规则\x1b[2J\x1b]0;owned\x07\u202eevil\u2066" + "很长的名字" * 30
    report = Report(
        turn_id="t-1",
        stable_prefix_hash="m",
        token_budget=100,
        token_used=150,
        rules_dropped=[rule, "[bold]two[/bold]"],
    )
    data = report.model_dump(mode="json", exclude={"turn_id"})
    put(engine.store.url, TurnRow("t-1", report=data, lane="\x1b[31m线", opened_at="2026-11-25"))
    engine.sync.close()
    at = ("s", "--store", engine.store.url)
    for more in ([], ["--full"], ["--turn", "1"]):
        text = ce("report", *at, *more, columns=columns).stdout
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
        if columns:
            assert max(map(cell_len, text.splitlines())) <= columns
        if not columns or more == ["--full"]:
            assert "[bold]two[/bold]" in "".join(text.split())
